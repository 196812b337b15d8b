"""The version of the SDK whose public names these are."""

__version__ = "0.24.0"
