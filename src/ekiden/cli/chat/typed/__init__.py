"""What a person types: the prompt, its completion and history, or lines of a pipe."""
