"""The commands as they work with a server instead of a store of this machine."""
