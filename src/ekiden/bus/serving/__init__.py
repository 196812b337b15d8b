"""The agents that this process serves: their messages are taken, handled and settled."""
