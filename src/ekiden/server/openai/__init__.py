"""The team behind the interfaces of OpenAI: chat completions, responses and models."""
