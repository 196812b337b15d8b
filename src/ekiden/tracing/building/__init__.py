"""From the events of a session to spans."""
