"""What is used when nothing is named."""

DEFAULT_STORE = ".ekiden/ekiden.db"
"""In the current folder; made by the first run."""

DEMO_TEAM = "ekiden.project.demo:team"
