"""Runs agents of the SDK's kind with Ekiden's loop: each difference is translated in one place.

`team` makes Ekiden's agents of the SDK's, with their tools, handoffs, hooks and guardrails. `model`
calls the SDK's models for such an agent, and `local_tools` runs OpenAI's tools on this machine.
`relay` holds the state of one run, `history` its conversation, and `shared_agents` the agents that
several runs use. `driver` starts and resumes runs.
"""
