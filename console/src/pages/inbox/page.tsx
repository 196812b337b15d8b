import type { VNode } from "preact";
import type { Route } from "../../lib/router";
import { t } from "../../lib/words";

export function InboxPage({ route }: { route: Route }): VNode {
  return <h1>{t("common.inbox")} {route.path.join("/")}</h1>;
}
