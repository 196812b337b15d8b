"""The conversation as those see it who take part: agents, targets of handoffs, conditions."""
