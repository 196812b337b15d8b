import type { VNode } from "preact";
import type { Route } from "../../lib/router";

export function GraphTab({ id }: { id: string; route: Route }): VNode {
  return <p>{id}</p>;
}
