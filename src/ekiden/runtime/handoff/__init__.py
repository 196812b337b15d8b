"""Handoffs. Every request for a handoff goes through `controller.carry_out`."""
