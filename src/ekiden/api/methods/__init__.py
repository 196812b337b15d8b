"""How methods of the interface are declared, checked and called, and the types they share."""
