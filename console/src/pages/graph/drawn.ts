/** A session's way as boxes and arrows. */
import type { SessionDetails } from "../../api/types";
import type { DrawnArrow, DrawnBox } from "../../graph/drawing";
import type { Arrange } from "../../graph/layout";
import { inLanes } from "../../graph/simple";
import { named, t } from "../../lib/words";
import { SIGNS, type Tone } from "../../ui/basics";
import { HANDOFFS, sessionLook, signed } from "../../ui/state";
import { boxOf, isUnderWay, pairsOf, type Fate, type Handoff, type Relay } from "./relay";

export interface Drawn {
  boxes: DrawnBox[];
  arrows: DrawnArrow[];
  /** The box of the agent that has the session. */
  active: string;
  arrange?: Arrange;
}

type Session = Pick<SessionDetails, "agent" | "state" | "outcome" | "conclusion" | "run_id">;

/** How the box of the agent looks that has the session. */
const LIT: Record<Tone, string> = { neutral: "lit", good: "lit", busy: "lit busy", wait: "lit wait", bad: "lit bad" };

/** The sign of a handoff that leads back is another one than that of one that was refused. */
const signOf = (status: Handoff["status"]): string => (status === "rolled_back" ? "↩" : SIGNS[HANDOFFS[status][0]]);

/** For the longest, so that nothing moves when a handoff gets on. */
const LABEL_ROOM = 130;

const FATE_LOOKS: Record<Fate, string> = { here: "", undone: "bad ghost", refused: "bad ghost", coming: "busy ghost" };

export const nameOf = (agent: string | null): string => agent ?? t("common.user");

export const statusText = ({ status }: Handoff): string => `${signOf(status)} ${t(HANDOFFS[status][1])}`;

/** What a screen reader says of a handoff. */
export function told(handoff: Handoff): string {
  const words = `${handoff.source} → ${handoff.target}, ${t(HANDOFFS[handoff.status][1])}`;
  return handoff.reason ? `${words}: ${handoff.reason}` : words;
}

function activeBox(id: string, agent: string | null, session: Session): DrawnBox {
  const look = sessionLook(session);
  const state = t(look[1]);
  return { id, label: nameOf(agent), note: signed(look), look: LIT[look[0]], title: t("graph.active_box", { agent: nameOf(agent), state }) };
}

function lookOf(handoffs: readonly Handoff[]): string {
  const last = handoffs.at(-1);
  if (!last) return "faint";
  if (handoffs.some(isUnderWay)) return "busy";
  return handoffs.every(({ status }) => status === "failed" || status === "rolled_back") ? "bad" : "";
}

function counts(handoffs: readonly Handoff[]): string {
  const [only] = handoffs;
  if (only && handoffs.length === 1) return only.status === "completed" ? "" : statusText(only);
  const many = (status: Handoff["status"]): number => handoffs.filter((each) => each.status === status).length;
  const [back, failed] = [many("rolled_back"), many("failed")];
  return [
    handoffs.length > 1 && `×${handoffs.length}`,
    back > 0 && `↩${back}`,
    failed > 0 && `✕${failed}`,
    handoffs.some(isUnderWay) && "…",
  ]
    .filter(Boolean)
    .join(" ");
}

/** One box for each agent, and one arrow for all handoffs from one to another. */
export function aggregated(relay: Relay, session: Session): Drawn {
  const active = boxOf(relay.current.agent);
  const stays = new Map<string, Relay["stays"]>();
  for (const stay of relay.stays) stays.set(boxOf(stay.agent), [...(stays.get(boxOf(stay.agent)) ?? []), stay]);
  const boxes = [...stays].map(([id, [first, ...more]]): DrawnBox => {
    if (id === active) return activeBox(id, first!.agent, session);
    const was = [first!, ...more].filter((stay) => stay.fate === "here").length;
    const last = (more.at(-1) ?? first!).fate;
    const note = id === "user" ? t("graph.begins") : was ? t("graph.n_stays", { n: was }) : named("graph", `fate_${last}`);
    return { id, label: nameOf(first!.agent), note, look: was ? "" : FATE_LOOKS[last] };
  });
  const arrows = pairsOf(relay).map(({ id, from, to, handoffs }): DrawnArrow => {
    const words = { from: nameOf(from), to: nameOf(to), n: handoffs.length };
    const back = handoffs.filter((each) => each.status === "rolled_back").length;
    const title = handoffs.length === 1 ? told(handoffs[0]!) : t(handoffs.length ? "graph.n_handoffs" : "graph.came", words);
    return {
      id,
      from: boxOf(from),
      to: boxOf(to),
      label: counts(handoffs),
      labelWidth: LABEL_ROOM,
      look: lookOf(handoffs),
      title: back && handoffs.length > 1 ? `${title}, ${t("graph.n_back", { n: back })}` : title,
      isBack: back > 0,
      isInert: !handoffs.length,
    };
  });
  return { boxes, arrows, active };
}

/** As it ran: one box for each stay, downward in time, each agent in a column of its own. */
export function expanded(relay: Relay, session: Session): Drawn {
  const lanes = [...new Set(relay.stays.map((stay) => stay.agent))];
  const laneOf = new Map(relay.stays.map((stay) => [stay.id, lanes.indexOf(stay.agent)]));
  const boxes = relay.stays.map((stay): DrawnBox => {
    if (stay === relay.current) return activeBox(stay.id, stay.agent, session);
    const note = stay.fate === "here" ? (stay.agent === null ? t("graph.begins") : undefined) : named("graph", `fate_${stay.fate}`);
    return { id: stay.id, label: nameOf(stay.agent), note, look: FATE_LOOKS[stay.fate] };
  });
  const arrows = relay.moves.map(({ id, from, to, handoff }): DrawnArrow => {
    const isGood = !handoff || handoff.status === "completed";
    return {
      id,
      from: from.id,
      to: to.id,
      label: isGood ? "" : statusText(handoff),
      look: lookOf(handoff ? [handoff] : []),
      title: handoff ? told(handoff) : t("graph.came", { from: nameOf(from.agent), to: nameOf(to.agent) }),
      isBack: handoff?.status === "rolled_back",
      isInert: !handoff,
    };
  });
  return { boxes, arrows, active: relay.current.id, arrange: inLanes((id) => laneOf.get(id) ?? 0) };
}
