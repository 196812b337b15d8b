"""Other SDKs' module trees over Ekiden's own objects."""
