"""The commands of a chat."""
