/** What people do with questions, and what they are told when it cannot be done. */
import { ApiError, get, part, post } from "../../api/http";
import type { BulkAnswer, NewAnswer } from "../../api/types";
import { t } from "../../lib/words";
import { errorText } from "../../ui/basics";
import type { Item } from "./item";

export interface Problem {
  item: Item;
  text: string;
  /** Nothing can be done about it any more. */
  isOver: boolean;
}

/** How many questions it was done to. */
export type Work = (item: Item) => Promise<number>;

const at = (item: Item, what: string): string => `/inbox/${part(item.id)}/${what}`;

/** An answer holds only for the question as it was seen. */
export async function answer(item: Item, body: NewAnswer): Promise<number> {
  const seen = { "If-Match": `"${item.status}-${item.version}"` };
  const done = await post<Item | BulkAnswer>(at(item, "answer"), body, seen);
  return "answered" in done ? done.answered.length : 1;
}

/** Snooze, assign or cancel it. */
export async function change(item: Item, what: "snooze" | "assign" | "cancel", body: unknown): Promise<number> {
  await post(at(item, what), body);
  return 1;
}

/** How a question ended, in a sentence. */
export function ending(item: Item): string {
  const taken = item.answer?.choice || item.answer?.text || "";
  if (item.status === "expired") return taken ? t("inbox.expired_said", { said: taken.slice(0, 200) }) : t("inbox.expired_now");
  if (item.status === "cancelled") return t("inbox.withdrawn_by", { by: item.closed_by });
  const said = item.answer?.choice || item.answer?.text || "";
  return t("inbox.answered_by", { by: item.closed_by, said: said.slice(0, 200) });
}

/** What went wrong, with the question as it is now: somebody else may have been first. */
async function problem(item: Item, error: unknown): Promise<Problem> {
  if (!(error instanceof ApiError)) return { item, text: (error as Error).message, isOver: false };
  if (error.status === 404) return { item, text: errorText(error), isOver: true };
  if (error.status !== 409 && error.status !== 412) return { item, text: errorText(error), isOver: false };
  try {
    const now = await get<Item>(`/inbox/${part(item.id)}`);
    if (now.status === "open") return { item: now, text: t("inbox.changed"), isOver: false };
    return { item: now, text: ending(now), isOver: true };
  } catch {
    return { item, text: errorText(error), isOver: false };
  }
}

const wait = (seconds: number): Promise<void> => new Promise((done) => window.setTimeout(done, seconds * 1000));

async function one(item: Item, work: Work, isStopped: () => boolean): Promise<Problem | number> {
  for (let tries = 3; ; tries--) {
    try {
      return await work(item);
    } catch (error) {
      const pause = error instanceof ApiError && error.status === 429 ? error.retryAfterS : null;
      if (pause === null || !tries) return problem(item, error);
      await wait(Math.min(pause, 10));
      if (isStopped()) return problem(item, error);
    }
  }
}

export interface Done {
  count: number;
  /** What could not be done, in the order of the items. */
  problems: Problem[];
  /** Those it was done to. */
  done: Item[];
  /** Those that it was stopped before. */
  rest: Item[];
}

/** Do it for each, one after the other, until it is stopped. */
export async function forEach(items: readonly Item[], work: Work, isStopped: () => boolean = () => false): Promise<Done> {
  const done: Done = { count: 0, problems: [], done: [], rest: [] };
  for (const item of items) {
    if (isStopped()) {
      done.rest.push(item);
      continue;
    }
    const result = await one(item, work, isStopped);
    if (typeof result !== "number") {
      done.problems.push(result);
      continue;
    }
    done.count += result;
    done.done.push(item);
  }
  return done;
}
