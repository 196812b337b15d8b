"""What tells about a person or opens a door: found, and covered before it is stored or shown."""
