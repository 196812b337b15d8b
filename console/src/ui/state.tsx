/** How a session is, in one word. */
import type { VNode } from "preact";
import { t, type Word } from "../lib/words";
import { Badge, type Tone } from "./basics";

export type SessionState = "working" | "waiting_agent" | "waiting_person" | "failed" | "idle";

export const STATES: Record<SessionState, [Tone, Word]> = {
  working: ["busy", "common.working"],
  waiting_agent: ["wait", "common.waiting_agent"],
  waiting_person: ["wait", "common.waiting_person"],
  failed: ["bad", "common.state_failed"],
  idle: ["neutral", "common.idle"],
};

export function StateBadge({ state }: { state: SessionState }): VNode {
  const [tone, word] = STATES[state] ?? STATES.idle;
  return <Badge tone={tone}>{t(word)}</Badge>;
}
