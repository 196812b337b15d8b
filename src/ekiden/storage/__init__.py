"""Where sessions live: the roles of a store in `base`, and a module for each back end."""
