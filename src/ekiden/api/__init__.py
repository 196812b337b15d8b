"""One interface to everything that is stored and run, locally or at a server.

A resource has values (frozen dataclasses, each field described once) and a `Protocol` whose methods
declare their HTTP form. `api.local` implements it with a store of this process, `ekiden.client`
calls a server. Routes, requests and the OpenAPI document are derived from the same declarations.
"""
