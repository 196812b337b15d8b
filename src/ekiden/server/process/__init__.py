"""The server as a process: its socket, its signals, and its end."""
