/** Where the boxes and arrows of a drawing stand: the same drawing always looks the same. */
import { Graph, layout as arrange } from "@dagrejs/dagre";
import { inLayers, loop, ROOM, type Placed } from "./simple";

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

/** The line of an arrow, and where its label stands. */
export interface Way {
  points: Place[];
  label: Place | null;
}

export interface Layout {
  width: number;
  height: number;
  boxes: Map<string, Place>;
  arrows: Map<string, Way>;
}

export type Arrange = (boxes: Box[], arrows: Arrow[]) => Layout;

/** Above this, a good layout takes longer to find than people like to wait. */
const MOST = 90;

/** From left to right, in the order that is given; so give it in an order that does not change. */
export const layOut: Arrange = (boxes, arrows) => {
  if (boxes.length + 2 * arrows.length > MOST) return inLayers(boxes, arrows);
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 44, edgesep: 18, marginx: 12, marginy: ROOM, ranker: "tight-tree" });
  for (const { id, width, height } of boxes) graph.setNode(id, { width, height });
  for (const { id, from, to, labelWidth = 0 } of arrows) {
    if (from !== to) graph.setEdge(from, to, { width: labelWidth, height: 18, labelpos: "c" }, id);
  }
  arrange(graph);
  const { width = 0, height = 0 } = graph.graph();
  const way = ({ id, from, to }: Arrow): Way => {
    if (from === to) return loop(graph.node(from) as Placed);
    const { points = [], x, y } = graph.edge(from, to, id);
    return { points, label: x === undefined ? null : { x, y: y! - 10 } };
  };
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    boxes: new Map(boxes.map(({ id }) => [id, graph.node(id) as Placed])),
    arrows: new Map(arrows.map((arrow) => [arrow.id, way(arrow)])),
  };
};
