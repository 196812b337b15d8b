"""YAML as agent files have it: read strictly, with the place of everything."""
