/** A handoff: the conversation crosses from one lane to another, or would have. */
import type { VNode } from "preact";
import { Plain } from "../../lib/hidden";
import { t } from "../../lib/words";
import { word } from "../../ui/basics";
import { HANDOFFS, handoffLook, LookBadge } from "../../ui/state";
import { detail, statusOf, type Entry } from "./entries";
import { classOf, laneOf, leftOf, nameOf, type Lanes } from "./lanes";
import { Problem } from "./tool";

export function Crossing({ entry, lanes }: { entry: Entry; lanes: Lanes }): VNode {
  const status = statusOf(entry);
  const to = word(detail(entry.event, "to"));
  const all = [entry.event, ...entry.related];
  const reason = word(detail(entry.event, "reason"));
  const error = all.findLast((event) => event.error)?.error;
  const left = all.flatMap((event) => (detail(event, "not_compensated") ?? []) as unknown[]);
  const from = leftOf(lanes, laneOf(lanes, entry.agent));
  const target = laneOf(lanes, to);
  const distance = leftOf(lanes, target) - from;
  return (
    <>
      <div
        class={`crossing ${status} ${classOf(target)}${distance < 0 ? " back" : ""}`}
        aria-hidden="true"
        style={{ "--reach": `${Math.abs(distance)}cqw` }}
      />
      <p>
        {t("session.hands_to")}{" "}
        <strong>
          <Plain text={nameOf(to)} />
        </strong>{" "}
        <LookBadge look={handoffLook(status) ?? HANDOFFS.initiated} />
        {reason && (
          <>
            {" "}
            <Plain text={reason} />
          </>
        )}
      </p>
      <Problem text={error} />
      <Problem text={left.length > 0 ? `${t("session.not_undone")} ${left.map(word).join(", ")}` : null} />
    </>
  );
}
