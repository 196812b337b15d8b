"""The interface over a store of this process."""
