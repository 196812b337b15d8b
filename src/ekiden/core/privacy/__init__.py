"""Finds personal data and secrets, and masks them before they are stored or shown."""
