"""The middleware of every request, from the outside in; plain ASGI, so that responses can be
streamed."""
