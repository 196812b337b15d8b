"""The keys of agent files: what each may be, what it means, and what it becomes."""
