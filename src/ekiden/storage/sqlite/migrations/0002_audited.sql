-- Events of the audited types in the order of their times, over all sessions: route, handoff,
-- guardrail, tool_confirmation, inbox. All other events are written without touching it.
CREATE INDEX events_audited ON events (at_us, session, seq, type)
    WHERE type IN (0, 3, 4, 5, 11);
