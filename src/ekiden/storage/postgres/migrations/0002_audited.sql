-- Events of the audited types in the order of their times, over all sessions. All other events are
-- written without touching it.
create index events_audited on events (at_us, session, seq, type)
    where type in ('guardrail', 'handoff', 'inbox', 'route', 'tool_confirmation');
