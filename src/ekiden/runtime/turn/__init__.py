"""One turn of an agent that thinks with a model."""
