/** Where each agent's lane lies, and how it looks. */
import { t } from "../../lib/words";

export interface Lanes {
  /** The user's lane is the first; it has no agent. */
  names: (string | null)[];
  /** How wide an entry is, in per cent. */
  width: number;
}

const WIDTHS = [100, 100, 68, 52, 44];
const NARROWEST = 38;
const COLOURS = 5;
export const PERSON = "person:";

export const lanesFrom = (agents: readonly string[]): Lanes => ({
  names: [null, ...agents],
  width: WIDTHS[agents.length + 1] ?? NARROWEST,
});

export const laneOf = (lanes: Lanes, agent: string | null): number => Math.max(0, lanes.names.indexOf(agent));

/** How far from the edge a lane begins, in per cent. */
export const leftOf = (lanes: Lanes, lane: number): number => (lane * (100 - lanes.width)) / Math.max(1, lanes.names.length - 1);

export const classOf = (lane: number): string => (lane ? `lane-${((lane - 1) % COLOURS) + 1}` : "lane-0");

/** What a lane is called; `person:ROLE` are people. */
export function nameOf(agent: string | null): string {
  if (agent === null) return t("common.user");
  return agent.startsWith(PERSON) ? t("session.people", { role: agent.slice(PERSON.length) }) : agent;
}
