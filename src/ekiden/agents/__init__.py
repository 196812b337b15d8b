"""Agents as files: Markdown with YAML front matter, read, checked and watched."""
