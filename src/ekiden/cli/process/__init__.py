"""Commands that run as a process: the server and the worker."""
