"""One file per command, imported when it is called.

What a command needs is imported inside it: so its help, too, comes quickly.
"""
