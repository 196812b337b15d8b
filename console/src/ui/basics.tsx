/** Small parts that all pages are made of. */
import type { ComponentChildren, VNode } from "preact";
import type { ApiError } from "../api/http";
import { Plain } from "../lib/hidden";
import type { Resource } from "../lib/resource";
import { link, type Params } from "../lib/router";
import { t } from "../lib/words";

/** How serious something is; each has a colour and a sign, so that colour is never all there is. */
export type Tone = "neutral" | "good" | "busy" | "wait" | "bad";

export const SIGNS: Record<Tone, string> = { neutral: "○", good: "✓", busy: "▶", wait: "◔", bad: "✕" };

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }): VNode {
  return (
    <span class={`badge ${tone}`}>
      <span aria-hidden="true">{SIGNS[tone]}</span> {children}
    </span>
  );
}

/** What an error says, in the reader's words where it is the console's own. */
export function errorText(error: ApiError): string {
  if (error.code === "console.offline") return t("common.offline");
  if (error.code === "console.timeout") return t("common.timeout");
  return error.message || t("common.failed", { status: error.status });
}

export function ErrorBox({ error, retry }: { error: ApiError; retry?: () => void }): VNode {
  return (
    <div class="notice bad" role="alert">
      <p>
        <Plain text={errorText(error)} /> {error.status > 0 && <code>{error.code || error.status}</code>}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          {t("common.try_again")}
        </button>
      )}
    </div>
  );
}

export function Loading(): VNode {
  return (
    <p class="muted" role="status">
      {t("common.loading")}
    </p>
  );
}

/** What stands where something will be shown: that it is read, or why it could not be. */
export function Pending({ of }: { of: Resource<unknown> }): VNode | null {
  if (of.error) return <ErrorBox error={of.error} retry={of.reload} />;
  return of.data ? null : <Loading />;
}

/** A link whose text comes from a model, a tool or a person. */
export function PlainLink({ to, text, query }: { to: string[]; text: string; query?: Params }): VNode {
  return (
    <a href={link(to, query)}>
      <Plain text={text} />
    </a>
  );
}

export function Empty({ children }: { children: ComponentChildren }): VNode {
  return <p class="empty">{children}</p>;
}

/** A button that asks for more of a list. */
export function More({ more, busy }: { more: (() => void) | null; busy: boolean }): VNode | null {
  if (!more && !busy) return null;
  return (
    <p class="more">
      <button type="button" disabled={busy} onClick={() => more?.()}>
        {t(busy ? "common.loading" : "common.more")}
      </button>
    </p>
  );
}

/** A value in one line: a text as it is, nothing as nothing, anything else as JSON. */
export const word = (value: unknown): string => (typeof value === "string" ? value : value == null ? "" : JSON.stringify(value));

/** JSON as people read it; a text that is no JSON as it is. */
export function pretty(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

/** Names and values. */
export function Facts({ rows }: { rows: [string, ComponentChildren][] }): VNode {
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
