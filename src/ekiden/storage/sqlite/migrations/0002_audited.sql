-- Events of the audited types in the order of their times, over all sessions: route, handoff,
-- guardrail, tool_confirmation, inbox, as numbers or by name. All other events are written without
-- touching it. Comparisons, because for IN every insert would first build a table of the values.
CREATE INDEX events_audited ON events (at_us, session, seq, type)
    WHERE type = 0 OR type = 3 OR type = 4 OR type = 5 OR type = 11 OR type = 'route'
        OR type = 'handoff' OR type = 'guardrail' OR type = 'tool_confirmation' OR type = 'inbox';
