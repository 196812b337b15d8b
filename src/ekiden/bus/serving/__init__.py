"""Serves agents in this process: takes, handles and settles their messages."""
