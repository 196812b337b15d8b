"""Questions to other agents and to people: asked, waited for, answered or withdrawn."""
