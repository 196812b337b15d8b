"""Runs agents of the SDK's kind with Ekiden's loop: each difference is translated in one place.

`team` makes Ekiden's agents of the SDK's; `model` is what such an agent thinks with, and calls the
SDK's models; `tools` wraps tools, handoffs, hooks and guardrails; `items` gives what the loop
stored the types of the `openai` package; `relay` holds the state of one run; `driver` starts and
resumes runs.
"""
