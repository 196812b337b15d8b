import type { VNode } from "preact";
import type { Route } from "../../lib/router";
import { t } from "../../lib/words";

export function AgentsPage({ route }: { route: Route }): VNode {
  return <h1>{t("common.agents")} {route.path.join("/")}</h1>;
}
