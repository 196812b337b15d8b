/** The conversation: who said and did what, each agent in a lane, as it happens. */
import type { VNode } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { part, post } from "../../api/http";
import type { ForkedSession, Run, SessionDetails } from "../../api/types";
import { Markdown } from "../../lib/markdown";
import { Plain } from "../../lib/hidden";
import { go, type Route } from "../../lib/router";
import { t, type Word } from "../../lib/words";
import { useMay } from "../../session";
import { Empty, ErrorBox, Loading } from "../../ui/basics";
import { attempt } from "../../ui/toasts";
import { Waiting } from "./case";
import { Compose } from "./compose";
import { entriesOf, lanesOf, type Entry } from "./entries";
import { EntryRow, Head } from "./entry";
import { classOf, laneOf, lanesFrom, leftOf, nameOf, type Lanes } from "./lanes";
import { useLog, type Draft, type Log } from "./log";
import { useReading } from "./reading";

interface WritingProps {
  draft: Draft;
  agent: string;
  lanes: Lanes;
  isWorking: boolean;
}

function Writing({ draft, agent, lanes, isWorking }: WritingProps): VNode | null {
  const [, draw] = useState(0);
  useEffect(() => draft.watch(() => draw((count) => count + 1)), [draft]);
  if (draft.isEmpty && !isWorking) return null;
  const doing: Word = draft.text ? "session.writing" : draft.isThinking ? "session.thinking" : "session.working";
  const lane = laneOf(lanes, agent);
  return (
    <article class={`entry answer writing ${classOf(lane)}`} style={{ "--left": `${leftOf(lanes, lane)}%` }} aria-busy="true" aria-live="off">
      <Head name={nameOf(agent)}>
        <span class="muted">{t(doing)}</span>
      </Head>
      {draft.text && <Markdown text={draft.text} />}
    </article>
  );
}

function Rails({ lanes }: { lanes: Lanes }): VNode {
  return (
    <>
      <div class="lane-names" role="group" aria-label={t("session.lanes")}>
        {lanes.names.map((name, lane) => (
          <span key={lane} class={classOf(lane)} style={{ "--left": `${leftOf(lanes, lane)}%` }}>
            <Plain text={nameOf(name)} />
          </span>
        ))}
      </div>
      <div class="rails" aria-hidden="true">
        {lanes.names.map((_, lane) => (
          <i key={lane} class={classOf(lane)} style={{ "--left": `${leftOf(lanes, lane)}%` }} />
        ))}
      </div>
    </>
  );
}

/** The entry that an event is told by. */
function entryAt(entries: readonly Entry[], seq: number): Entry | undefined {
  return (
    entries.find((entry) => entry.seq === seq || entry.related.some((event) => event.seq === seq)) ??
    entries.findLast((entry) => entry.seq <= seq)
  );
}

function Steps({ log, session, seq }: { log: Log; session: SessionDetails; seq: number }): VNode {
  const events = log.events!;
  const before = useRef<Entry[]>([]);
  const entries = useMemo(() => (before.current = entriesOf(events, before.current)), [events]);
  const names = JSON.stringify(lanesOf(entries, session.handoffs, session.agent));
  const lanes = useMemo(() => lanesFrom(JSON.parse(names) as string[]), [names]);
  const fork = useFork(session.session_id);
  const marked = seq ? entryAt(entries, seq) : undefined;
  const first = events[0]?.seq ?? 1;
  const { box, content, isAtEnd, toEnd, keepPlace } = useReading(first, marked?.key ?? "");
  const [isBusy, setBusy] = useState(false);
  const earlier = async (to?: number): Promise<void> => {
    setBusy(true);
    keepPlace();
    await attempt(() => log.earlier!(to));
    setBusy(false);
  };
  const isMissing = seq > 0 && seq < first;
  useEffect(() => {
    if (isMissing && log.earlier && !isBusy) void earlier(seq);
  }, [isMissing, seq]);
  const last = events.at(-1)?.seq;
  useEffect(() => {
    if (isAtEnd && !isBusy && !seq) log.trim();
  }, [last]);
  const speaks = events.findLast((event) => event.event_type === "agent_start")?.agent_name ?? session.agent;
  return (
    <div class="reading">
      <div class="log" ref={box} tabIndex={0} role="log" aria-label={t("session.log")}>
        <div class="steps" ref={content} style={{ "--width": `${lanes.width}%` }}>
          <Rails lanes={lanes} />
          {log.earlier && (
            <p class="more">
              <button type="button" disabled={isBusy} onClick={() => void earlier()}>
                {t(isBusy ? "common.loading" : "session.earlier")}
              </button>
            </p>
          )}
          {!entries.length && <Empty>{t("session.empty")}</Empty>}
          {entries.map((entry) => (
            <EntryRow key={entry.key} entry={entry} lanes={lanes} isMarked={entry === marked} fork={fork} />
          ))}
          <Writing draft={log.draft} agent={speaks} lanes={lanes} isWorking={session.state === "working"} />
        </div>
      </div>
      {!isAtEnd && (
        <button type="button" class="newest" onClick={toEnd}>
          {t("session.newest")} ↓
        </button>
      )}
    </div>
  );
}

/** Fork at a step, and go to the new session; `null` for those who may not. */
function useFork(id: string): ((seq: number) => void) | null {
  const mayRun = useMay("run");
  const shown = useRef("");
  const isBusy = useRef(false);
  useEffect(() => {
    shown.current = id;
    return () => void (shown.current = "");
  }, [id]);
  const fork = useCallback(
    async (seq: number) => {
      // A double click makes one session.
      if (isBusy.current) return;
      isBusy.current = true;
      await attempt(async () => {
        const made = await post<ForkedSession>(`/sessions/${part(id)}/fork`, { at: seq });
        // Whoever went elsewhere meanwhile stays there.
        if (shown.current === id) go(["sessions", made.session_id]);
      }, t("session.forked"));
      isBusy.current = false;
    },
    [id],
  );
  return mayRun ? fork : null;
}

interface Props {
  session: SessionDetails;
  run: Run | null;
  route: Route;
  reload: () => void;
}

export function ConversationTab({ session, run, route, reload }: Props): VNode {
  const id = session.session_id;
  const seq = Number(route.query.get("seq")) || 0;
  const log = useLog(id, session.events, seq, reload);
  const mayRun = useMay("run");
  return (
    <>
      {log.error && <ErrorBox error={log.error} retry={log.retry} />}
      {!log.events && !log.error && <Loading />}
      {log.events && <Steps log={log} session={session} seq={seq} />}
      {run && <Waiting questions={run.questions} />}
      {mayRun && <Compose id={id} isWaiting={session.state === "waiting_person"} />}
    </>
  );
}
