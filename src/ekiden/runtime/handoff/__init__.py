"""Handoffs: everybody who wants one goes through `controller.carry_out`."""
