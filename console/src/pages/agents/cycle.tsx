/** Agents that wait for each other, in a circle: arrows go from who asks to who should answer. */
import type { VNode } from "preact";
import { useId } from "preact/hooks";
import type { DeadlockModel } from "../../api/types";
import { shortened } from "../../graph/drawing";
import { t } from "../../lib/words";

const HALF_HEIGHT = 18;
const LETTERS = 16;
const MARGIN = 20;

const widthOf = (name: string): number => {
  let width = 26;
  for (const char of shortened(name, LETTERS)) width += char > "\u2e7f" ? 15 : 8;
  return width;
};

interface Point {
  x: number;
  y: number;
}

/** The angle at which a box on the circle ends, looked for along the arc. */
function leaving(center: Point, radius: number, angle: number, step: number, half: Point): number {
  let at = angle;
  const start = on(center, radius, angle);
  for (let n = 0; n < 120; n++) {
    at += step;
    const { x, y } = on(center, radius, at);
    if (Math.abs(x - start.x) > half.x || Math.abs(y - start.y) > half.y) return at;
  }
  return at;
}

const on = (center: Point, radius: number, angle: number): Point => ({
  x: center.x + radius * Math.cos(angle),
  y: center.y + radius * Math.sin(angle),
});

export function Cycle({ deadlock }: { deadlock: DeadlockModel }): VNode {
  const marker = useId();
  const agents = deadlock.cycle.slice(0, -1);
  const count = Math.max(1, agents.length);
  const radius = Math.max(84, count * 24);
  const widest = Math.max(...agents.map(widthOf), 40);
  const center = { x: radius + widest / 2 + MARGIN, y: radius + HALF_HEIGHT + MARGIN };
  const angleOf = (at: number): number => -Math.PI / 2 + (at * 2 * Math.PI) / count;
  const arc = (at: number): { path: string; middle: Point } => {
    const half = (name: string): Point => ({ x: widthOf(name) / 2 + 3, y: HALF_HEIGHT + 3 });
    const from = leaving(center, radius, angleOf(at), 0.03, half(agents[at]!));
    const to = leaving(center, radius, angleOf(at + 1), -0.03, half(agents[(at + 1) % count]!));
    const [start, end] = [on(center, radius, from), on(center, radius, to)];
    const isLong = to - from > Math.PI ? 1 : 0;
    return { path: `M${start.x},${start.y}A${radius},${radius} 0 ${isLong} 1 ${end.x},${end.y}`, middle: on(center, radius, (from + to) / 2) };
  };
  const givenUp = (at: number): boolean =>
    deadlock.asks.some((ask) => ask.given_up && ask.from === agents[at] && ask.to === agents[(at + 1) % count]);
  const told = deadlock.cycle.join(t("agents.then_waits_for"));
  const label = deadlock.victim ? `${told}. ${t("agents.gave_up", { name: deadlock.victim })}` : told;
  return (
    <div class="drawing cycle" tabIndex={0} role="group" aria-label={label}>
      <svg width={center.x * 2} height={center.y * 2} viewBox={`0 0 ${center.x * 2} ${center.y * 2}`} role="img" aria-label={label}>
        <defs>
          <marker id={marker} viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0,0 8,4 0,8z" class="head" />
          </marker>
        </defs>
        {agents.map((name, at) => {
          const { path, middle } = arc(at);
          return (
            <g key={`${at} ${name}`} class={givenUp(at) ? "arrow bad" : "arrow"}>
              <path d={path} class="line" marker-end={`url(#${marker})`} />
              <circle cx={middle.x} cy={middle.y} r="10" class="number" />
              <text x={middle.x} y={middle.y} dy="4">
                {givenUp(at) ? "✕" : at + 1}
              </text>
            </g>
          );
        })}
        {agents.map((name, at) => {
          const place = on(center, radius, angleOf(at));
          const width = widthOf(name);
          const isVictim = name === deadlock.victim;
          return (
            <g key={name} class={isVictim ? "box bad" : "box wait"}>
              <title>{isVictim ? t("agents.gave_up", { name }) : name}</title>
              <rect x={place.x - width / 2} y={place.y - HALF_HEIGHT} width={width} height={HALF_HEIGHT * 2} rx="8" />
              <text x={place.x} y={place.y} dy={isVictim ? -1 : 5}>
                {shortened(name, LETTERS)}
              </text>
              {isVictim && (
                <text class="note" x={place.x} y={place.y} dy="12">
                  ✕ {t("agents.victim")}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}
