import type { VNode } from "preact";
import type { Route } from "../../lib/router";
import { t } from "../../lib/words";

export function SessionsPage({ route }: { route: Route }): VNode {
  return <h1>{t("common.sessions")} {route.path.join("/")}</h1>;
}
