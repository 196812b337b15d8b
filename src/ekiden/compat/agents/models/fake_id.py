"""The id of items that a provider without ids gave."""

FAKE_RESPONSES_ID = "__fake_id__"
