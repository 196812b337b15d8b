"""OpenAI's models that hear and speak."""
