/** Where the boxes and arrows of a drawing stand: the same drawing always looks the same. */
import { Graph, layout as arrange } from "@dagrejs/dagre";
import { inLayers } from "./simple";

export interface Box {
  id: string;
  width: number;
  height: number;
}

export interface Arrow {
  id: string;
  from: string;
  to: string;
  /** The room that a label needs, if there is one. */
  labelWidth?: number;
}

export interface Place {
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  boxes: Map<string, Place>;
  arrows: Map<string, { points: Place[]; label: Place | null }>;
}

export type Arrange = (boxes: Box[], arrows: Arrow[], direction: "LR" | "TB") => Layout;

/** Above this, a good layout takes longer to find than people like to wait. */
const MOST = 90;

/** In the order that is given; so give it in an order that does not change. */
export const layOut: Arrange = (boxes, arrows, direction) => {
  if (boxes.length + 2 * arrows.length > MOST) return inLayers(boxes, arrows, direction);
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 28, ranksep: 44, edgesep: 18, marginx: 12, marginy: 12, ranker: "tight-tree" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  for (const arrow of arrows) {
    const size = arrow.labelWidth ? { width: arrow.labelWidth, height: 18, labelpos: "c" as const } : {};
    graph.setEdge(arrow.from, arrow.to, size, arrow.id);
  }
  arrange(graph);
  const whole = graph.graph();
  return {
    width: Math.ceil(whole.width ?? 0),
    height: Math.ceil(whole.height ?? 0),
    boxes: new Map(boxes.map(({ id }) => [id, { x: graph.node(id).x!, y: graph.node(id).y! }])),
    arrows: new Map(
      graph.edges().map((edge) => {
        const found = graph.edge(edge);
        const label = found.x === undefined ? null : { x: found.x, y: found.y! - 10 };
        return [edge.name!, { points: found.points ?? [], label }];
      }),
    ),
  };
};
