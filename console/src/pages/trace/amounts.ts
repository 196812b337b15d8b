/** Tokens and money as people read them. */
import type { TraceSpan } from "../../api/types";
import { currentLanguage, t } from "../../lib/words";

export const few = (count: number): string =>
  new Intl.NumberFormat(currentLanguage(), { notation: "compact", maximumFractionDigits: 1 }).format(count);

export function money(cost: number): string {
  const digits = cost < 0.01 ? 6 : cost < 1 ? 4 : 2;
  return new Intl.NumberFormat(currentLanguage(), {
    style: "currency",
    currency: "USD",
    maximumFractionDigits: digits,
  }).format(cost);
}

/** What is known of the cost, and that some of it is not. */
export function costText(cost: number | null | undefined, unpriced: number | null | undefined): string {
  if (typeof cost !== "number") return unpriced ? "?" : "";
  return unpriced ? `≥ ${money(cost)}` : money(cost);
}

export const unpricedText = (unpriced: number | null | undefined): string =>
  unpriced ? t("trace.unpriced", { n: unpriced }) : "";

export function tokensText(tokens: TraceSpan["tokens"]): string {
  if (!tokens) return "";
  const { input_tokens: input = 0, output_tokens: output = 0, total_tokens: total = 0 } = tokens;
  const parts = [t("trace.tokens_of", { total, input, output })];
  if (tokens.cached_tokens) parts.push(t("trace.cached", { n: tokens.cached_tokens }));
  if (tokens.reasoning_tokens) parts.push(t("trace.reasoning", { n: tokens.reasoning_tokens }));
  return parts.join(" · ");
}
