/** Who had a session, one after the other, as its handoffs tell it. */
import type { HandoffView } from "../../api/types";

export type Handoff = HandoffView;

/** `here`: it worked on it; `undone`: that was taken back; `refused`: it never got it; `coming`: not yet. */
export type Fate = "here" | "undone" | "refused" | "coming";

/** A time that an agent had the session, or was to have it. */
export interface Stay {
  id: string;
  /** `null`: the person who began. */
  agent: string | null;
  fate: Fate;
  /** Until then the stay went on, although it was taken back in the end. */
  until: number;
}

export interface Move {
  id: string;
  from: Stay;
  to: Stay;
  /** `null`: the session came there without a handoff. */
  handoff: Handoff | null;
}

export interface Relay {
  stays: Stay[];
  moves: Move[];
  current: Stay;
}

const FATES: Record<Handoff["status"], Fate> = {
  initiated: "coming",
  validating: "coming",
  transferring: "here",
  completed: "here",
  failed: "refused",
  rolled_back: "undone",
};

/** The whole way of a session that `agent` has now. */
export function relayOf(agent: string, handoffs: readonly Handoff[]): Relay {
  const user: Stay = { id: "user", agent: null, fate: "here", until: Infinity };
  const relay: Relay = { stays: [user], moves: [], current: user };
  for (const handoff of handoffs) {
    const from = sourceOf(relay, handoff);
    const fate = FATES[handoff.status];
    const until = handoff.rewound ? Infinity : (handoff.settled_at ?? Infinity);
    const to: Stay = { id: `to ${handoff.id}`, agent: handoff.target, fate, until };
    relay.stays.push(to);
    relay.moves.push({ id: handoff.id, from, to, handoff });
    if (fate === "here" && from.fate === "here") relay.current = to;
  }
  if (relay.current.agent !== agent) goTo(relay, agent, "now");
  return relay;
}

/** The stay that a handoff ended or was to end. */
function sourceOf(relay: Relay, { id, source, started_at: at }: Handoff): Stay {
  if (relay.current.agent === source) return relay.current;
  // Handoffs that were made on a way that was given up later are part of that way.
  const undone = relay.stays.findLast((stay) => stay.agent === source && stay.fate === "undone" && stay.until >= at);
  return undone ?? goTo(relay, source, id);
}

/** It began there, or a message was given to another agent than the one that had the session. */
function goTo(relay: Relay, agent: string, before: string): Stay {
  const isFirst = relay.stays.length === 1;
  const stay: Stay = { id: isFirst ? "first" : `before ${before}`, agent, fate: "here", until: Infinity };
  relay.moves.push({ id: `way to ${stay.id}`, from: relay.current, to: stay, handoff: null });
  relay.stays.push(stay);
  relay.current = stay;
  return stay;
}

/** All moves from one agent to another. */
export interface Pair {
  id: string;
  from: string | null;
  to: string | null;
  handoffs: Handoff[];
}

export const boxOf = (agent: string | null): string => (agent === null ? "user" : `agent ${agent}`);

export function pairsOf(relay: Relay): Pair[] {
  const found = new Map<string, Pair>();
  for (const { from, to, handoff } of relay.moves) {
    const id = `${boxOf(from.agent)} → ${boxOf(to.agent)}`;
    const pair = found.get(id) ?? { id, from: from.agent, to: to.agent, handoffs: [] };
    found.set(id, pair);
    if (handoff) pair.handoffs.push(handoff);
  }
  return [...found.values()];
}

export const isUnderWay = ({ status }: Handoff): boolean => status === "initiated" || status === "validating" || status === "transferring";
