"""The commands, imported when they are called; related small commands share a file.

A command imports its dependencies inside the function, so that its help is fast.
"""
