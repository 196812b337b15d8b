"""Checks of configuration values: types and limits, kinds of settings, network addresses."""
