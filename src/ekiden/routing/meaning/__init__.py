"""The `semantic` stage: routing by what a request means."""
