"""Personal data and secrets: detection, and masking before they are stored or shown."""
