/** The spans of a trace as rows of a tree: which are shown, how each stands, which try it is. */
import type { TraceSpan, SessionTrace } from "../../api/types";
import { spanLook, type Look, type SpanState } from "../../ui/state";

export interface Row {
  span: TraceSpan;
  /** Its place in the trace. */
  at: number;
  depth: number;
  parent: Row | null;
  /** How many spans stand below it. */
  below: number;
  state: SpanState;
  /** What it is shown as. */
  look: Look;
  /** The how many-th try of the same thing it is. */
  attempt: number;
}

const stateOf = (span: TraceSpan): SpanState =>
  span.status === "ok" && span.ended_at === null ? "running" : span.status;

/** What is done again when it failed. */
const TRIED = new Set(["tool_call", "llm_call", "message", "task", "handoff"]);

const MODEL = "llm_call";

/**
 * Told by the server, or: the one before with the same name, at the same place, went wrong. A tool
 * is tried again only by a model that was told so: calls of one answer are not tries of each other.
 */
function attemptOf(span: TraceSpan, before: Map<string, Row>): number {
  const told = span.details?.attempt;
  if (typeof told === "number") return told;
  const last = before.get(`${span.kind} ${span.name}`);
  if (!TRIED.has(span.kind) || last?.state !== "error") return 1;
  if (span.kind === "tool_call" && (before.get(MODEL)?.at ?? 0) < last.at) return 1;
  return last.attempt + 1;
}

export function rowsOf(trace: SessionTrace): Row[] {
  const above: { row: Row; children: Map<string, Row> }[] = [];
  const rows = trace.spans.map((span, at) => {
    const depth = span.depth ?? 0;
    above.length = Math.min(above.length, depth);
    const parent = above.at(-1);
    const beside = parent?.children ?? new Map<string, Row>();
    const row: Row = {
      span,
      at,
      depth,
      parent: parent?.row ?? null,
      below: 0,
      state: stateOf(span),
      look: spanLook(span),
      attempt: attemptOf(span, beside),
    };
    beside.set(`${span.kind} ${span.name}`, row);
    if (span.kind === MODEL) beside.set(MODEL, row);
    above.push({ row, children: new Map() });
    return row;
  });
  for (const row of rows.toReversed()) if (row.parent) row.parent.below += row.below + 1;
  return rows;
}

/** Those that are wanted with all above them; without a wish, those that nothing above has folded. */
export function shownRows(rows: Row[], folded: ReadonlySet<string>, wanted: ((row: Row) => boolean) | null): Row[] {
  const shown: Row[] = [];
  if (!wanted) {
    for (let at = 0; at < rows.length; at++) {
      const row = rows[at]!;
      shown.push(row);
      if (folded.has(row.span.span_id)) at += row.below;
    }
    return shown;
  }
  const kept = new Set<Row>();
  for (const row of rows) {
    if (!wanted(row)) continue;
    for (let each: Row | null = row; each && !kept.has(each); each = each.parent) kept.add(each);
  }
  return rows.filter((row) => kept.has(row));
}

export function above(row: Row): string[] {
  const ids: string[] = [];
  for (let each = row.parent; each; each = each.parent) ids.push(each.span.span_id);
  return ids;
}
