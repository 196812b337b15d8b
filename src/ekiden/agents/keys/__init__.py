"""The keys of agent files: their valid values, their meaning, and the definitions made from
them."""
