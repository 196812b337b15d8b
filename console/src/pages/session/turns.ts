/** Types of events after which a session may stand otherwise. */
export const TURNS = ["message", "agent_start", "agent_complete", "agent_error", "handoff", "inbox"];
