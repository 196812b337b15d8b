"""Creates agents from agent files, with their tools, handoffs, guardrails and memory."""
