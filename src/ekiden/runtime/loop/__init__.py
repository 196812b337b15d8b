"""Defines `advance`, claims sessions for runs, and waits for answers."""
