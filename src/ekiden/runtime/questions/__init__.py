"""Questions to other agents and to people: how they are asked, awaited, answered and withdrawn."""
