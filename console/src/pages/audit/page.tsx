import type { VNode } from "preact";
import type { Route } from "../../lib/router";
import { t } from "../../lib/words";

export function AuditPage({ route }: { route: Route }): VNode {
  return <h1>{t("common.audit")} {route.path.join("/")}</h1>;
}
