"""Commands that are a process of their own: the server and the worker."""
