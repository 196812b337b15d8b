"""The middleware of every request. It is plain ASGI, so that responses can be streamed."""
