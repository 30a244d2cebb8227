// Positions of nodes and edges, computed once per shape of the graph.
import { Graph, layout } from "../../vendor/dagre.js";

const NODE = { width: 216, height: 96 };
const NARROW_NODE = { width: 168, height: 96 };
const MARGIN = 12;
// dagre puts the label of an edge on a rank between its nodes
const NEIGHBOURS = 2;

export function layoutOf(nodes, edges, isNarrow) {
  const graph = new Graph();
  const size = isNarrow ? NARROW_NODE : NODE;
  graph.setGraph({ rankdir: isNarrow ? "TB" : "LR", nodesep: isNarrow ? 20 : 28, ranksep: isNarrow ? 44 : 36, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach((node) => graph.setNode(node.name, { ...size }));
  edges.forEach((edge) => graph.setEdge(edge.from, edge.to, { width: edge.kind === "rejected" ? 112 : 64, height: 16, labelpos: "c" }));
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    nodes: Object.fromEntries(nodes.map(({ name }) => [name, box(graph.node(name))])),
    edges: edges.map(({ from, to }) => drawn(graph, from, to, isNarrow)),
  };
}

const box = ({ x, y, width, height }) => ({ left: Math.round(x - width / 2), top: Math.round(y - height / 2), width, height });

// From the middle of one side to the middle of the opposite side, through the points that dagre keeps free.
function drawn(graph, from, to, isNarrow) {
  const { points, x, y } = graph.edge(from, to);
  const [start, end] = [graph.node(from), graph.node(to)];
  const way = isNarrow ? { x: 0, y: start.height / 2 } : { x: start.width / 2, y: 0 };
  const [first, last] = [{ x: start.x + way.x, y: start.y + way.y }, { x: end.x - way.x, y: end.y - way.y }];
  if (end.rank - start.rank <= NEIGHBOURS) {
    return { path: curve([first, last], isNarrow), x: Math.round((first.x + last.x) / 2), y: Math.round((first.y + last.y) / 2) };
  }
  return { path: curve([first, ...points.slice(1, -1), last], isNarrow), x: Math.round(x), y: Math.round(y) };
}

function curve(points, isNarrow) {
  const text = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  return points.slice(1).reduce((path, b, index) => {
    const a = points[index];
    const [first, second] = isNarrow ? [text(a.x, (a.y + b.y) / 2), text(b.x, (a.y + b.y) / 2)] : [text((a.x + b.x) / 2, a.y), text((a.x + b.x) / 2, b.y)];
    return `${path}C${first} ${second} ${text(b.x, b.y)}`;
  }, `M${text(points[0].x, points[0].y)}`);
}
