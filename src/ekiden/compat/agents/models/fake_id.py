"""The id of items that a provider without ids gave."""

__all__ = ["FAKE_RESPONSES_ID"]

FAKE_RESPONSES_ID = "__fake_id__"
