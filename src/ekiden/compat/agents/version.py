"""The version of the SDK whose public names these are."""

__all__ = ["__version__"]

__version__ = "0.24.0"
