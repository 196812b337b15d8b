"""One interface to all resources, such as sessions and runs, of a local store or a server.

A resource has values (frozen dataclasses, each field described once) and a `Protocol` whose methods
declare their HTTP form. `api.local` implements the protocols with a store of this process;
`ekiden.client` implements them with calls to a server. Routes, requests and the OpenAPI document
are derived from the same declarations.
"""
