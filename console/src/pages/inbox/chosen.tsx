/** Several questions that are decided at once: each with its arguments, and what they come to. */
import type { VNode } from "preact";
import { Plain } from "../../lib/hidden";
import { t } from "../../lib/words";
import { pretty } from "../../ui/basics";
import { isMisleading, type Item } from "./item";

/** Arguments that can be added up; an order's number cannot. */
const ADDED = /amount|total|sum|price|cost|fee|cents|quantity|qty|count|金额|数量/i;
/** What a number is of: numbers of different ones are added up apart. */
const UNIT = /currency|unit|ccy|币种|货币|单位/i;
const NUMBER = /^-?\d{1,15}(\.\d{1,9})?$/;
const PLACES = 9;

type Arguments = Record<string, unknown>;

function argumentsOf(item: Item): Arguments | null {
  try {
    const found: unknown = JSON.parse(item.arguments ?? "");
    return found && typeof found === "object" && !Array.isArray(found) ? (found as Arguments) : null;
  } catch {
    return null;
  }
}

/** The number as so many billionths, which can be added up without rounding; `null` for what is none. */
function exact(value: unknown): bigint | null {
  const text = typeof value === "number" || typeof value === "string" ? String(value) : "";
  if (!NUMBER.test(text)) return null;
  const [whole = "", rest = ""] = text.split(".");
  return BigInt(whole + rest.padEnd(PLACES, "0"));
}

function shown(sum: bigint): string {
  const digits = String(sum < 0n ? -sum : sum).padStart(PLACES + 1, "0");
  const rest = digits.slice(-PLACES).replace(/0+$/, "");
  return `${sum < 0n ? "-" : ""}${digits.slice(0, -PLACES)}${rest && `.${rest.padEnd(2, "0")}`}`;
}

/** What the arguments come to: for each that all questions have, and that is a number in all of them. */
export function sums(items: readonly Item[]): [string, string][] {
  const all = items.map(argumentsOf);
  const first = all[0];
  if (!first || all.length < 2 || items.some((each) => each.tool !== items[0]!.tool)) return [];
  return Object.keys(first)
    .filter((name) => ADDED.test(name) && all.every((each) => each && exact(each[name]) !== null))
    .map((name) => {
      const byUnit = new Map<string, bigint>();
      for (const each of all as Arguments[]) {
        const unit = Object.entries(each).find(([key, value]) => UNIT.test(key) && typeof value === "string")?.[1] ?? "";
        byUnit.set(unit as string, (byUnit.get(unit as string) ?? 0n) + exact(each[name])!);
      }
      return [name, [...byUnit].map(([unit, sum]) => `${shown(sum)} ${unit}`.trim()).join(" + ")];
    });
}

function Given({ item }: { item: Item }): VNode | null {
  const given = argumentsOf(item);
  if (!given) return item.arguments ? <pre><Plain text={item.arguments} /></pre> : null;
  return (
    <dl>
      {Object.entries(given).map(([name, value]) => (
        <div key={name}>
          <dt><Plain text={name} /></dt>
          <dd><Plain text={typeof value === "string" ? value : pretty(value)} /></dd>
        </div>
      ))}
    </dl>
  );
}

export function Chosen({ items }: { items: Item[] }): VNode {
  return (
    <>
      <ul class="chosen" tabIndex={0} aria-label={t("inbox.chosen")}>
        {items.map((each) => (
          <li key={each.id}>
            <strong><Plain text={each.subject} /></strong> <span class="muted"><Plain text={[each.from_agent, each.tool].filter(Boolean).join(" · ")} /></span>{" "}
            {isMisleading(each) && <span class="badge bad">⚠ {t("inbox.misleading_short")}</span>}
            <Given item={each} />
          </li>
        ))}
      </ul>
      {sums(items).map(([name, sum]) => (
        <p key={name} class="sum"><Plain text={t("inbox.sum", { name, sum })} /></p>
      ))}
    </>
  );
}
