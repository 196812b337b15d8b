"""What is served under `/api/v1`: one file per noun."""
