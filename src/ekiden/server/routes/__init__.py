"""Routes under `/api/v1`; one file for each resource."""
