/** What was changed, line by line. */
import type { VNode } from "preact";
import { Plain } from "../../lib/hidden";
import { t } from "../../lib/words";

export interface Line {
  sign: " " | "+" | "-";
  text: string;
}

const LONGEST = 600;

/** The longest common lines stay; texts too long for that are taken out and put in as a whole. */
export function differences(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  const all = (list: string[], sign: Line["sign"]): Line[] => list.map((text) => ({ sign, text }));
  if (old.length > LONGEST || now.length > LONGEST) return [...all(old, "-"), ...all(now, "+")];
  const common = old.map(() => new Uint16Array(now.length + 1));
  common.push(new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i]![j] = old[i] === now[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
    }
  }
  const result: Line[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      result.push({ sign: " ", text: old[i++]! });
      j++;
    } else if (i < old.length && (j === now.length || common[i + 1]![j]! >= common[i]![j + 1]!)) {
      result.push({ sign: "-", text: old[i++]! });
    } else {
      result.push({ sign: "+", text: now[j++]! });
    }
  }
  return result;
}

const NAMES = { " ": "same", "+": "added", "-": "removed" };

export function Differences({ before, after }: { before: string; after: string }): VNode {
  return (
    <pre class="diff" tabIndex={0} role="group" aria-label={t("inbox.differences")}>
      {differences(before, after).map((line, index) => (
        <div key={index} class={NAMES[line.sign]}>
          <span>{line.sign} </span>
          <Plain text={line.text} />
        </div>
      ))}
    </pre>
  );
}
