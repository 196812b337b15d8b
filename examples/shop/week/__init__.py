"""A simulated week at the shop's desk: a plan, the driver that performs it, and the checker."""
