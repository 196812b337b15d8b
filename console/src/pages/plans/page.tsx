import type { VNode } from "preact";
import type { Route } from "../../lib/router";
import { t } from "../../lib/words";

export function PlansPage({ route }: { route: Route }): VNode {
  return <h1>{t("common.plans")} {route.path.join("/")}</h1>;
}
