"""Bodies of requests and answers, as the OpenAPI document tells them."""
