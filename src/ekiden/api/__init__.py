"""One interface to all resources, such as sessions and runs, of a local store or a server.

A resource has values (frozen dataclasses, each field described once) and a `Protocol`. Each method
of the protocol declares its HTTP method, path and scope. `api.local` implements the protocols on a
store in this process; `ekiden.client` implements them with requests to a server. Routes, requests
and the OpenAPI document are derived from the same declarations.
"""
