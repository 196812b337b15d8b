"""What a chat shows, and to whom: a person at a terminal, a pipe, or a program."""
