"""From agent files to agents: tools, handoffs, guardrails, memory."""
