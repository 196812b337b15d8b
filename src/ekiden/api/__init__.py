"""One interface to all resources, such as sessions and runs, of a local store or a server.

Each resource has a `Protocol` with its methods, and frozen dataclasses for their arguments and
results. Each method declares its HTTP method, its path, and the scope that a caller's API key must
have. `api.local` implements the protocols on a store in this process; `ekiden.client` implements
them with requests to a server. The server's routes, the client's requests and the OpenAPI document
are derived from these declarations.
"""
