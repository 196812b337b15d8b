"""Personal data and secrets: found, and masked before they are stored or shown."""
