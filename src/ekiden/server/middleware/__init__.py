"""What every request goes through, from the outside in; plain ASGI, so that streams stream."""
