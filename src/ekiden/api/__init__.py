"""One interface to everything that is stored and run, whether it is here or behind a server.

Each resource is one file: its values (frozen dataclasses, each field with its one description), and
a `Protocol` whose methods say what they are over HTTP. `api.local` does it with a store of this
process, `ekiden.client` asks a server for it; routes, requests and the OpenAPI document are derived
from the same declarations.
"""
