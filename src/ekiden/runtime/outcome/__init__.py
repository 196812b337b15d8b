"""How a run ends, and what came of what it left open."""
