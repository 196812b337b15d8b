"""Values as they are stored: JSON, ids, times."""
