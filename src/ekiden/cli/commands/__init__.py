"""One file per command, imported when it is called.

A command imports its dependencies inside the function, so that its help is fast.
"""
