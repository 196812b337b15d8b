"""What becomes of sessions afterwards: branches, steps back, exports, imports, retention."""
