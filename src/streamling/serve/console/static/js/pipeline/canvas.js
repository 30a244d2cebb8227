// The area in which a graph is drawn: it scrolls, zooms, finds nodes, and shows where it is in a large graph.
import { useWidth } from "../hooks.js";
import { Button, html, Icon, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";

const SMALLEST = 0.05;
const READABLE = 0.7;
const LARGEST = 2;
const STEP = 1.25;
const SHARE_OF_WINDOW = 0.72;
const SEARCHED = 10;
const MAPPED = 30;
const MAP = { width: 190, height: 130 };

const within = (low, value, high) => Math.min(high, Math.max(low, value));

// Zoom of the graph. `null` means: as small as it has to be, but readable.
function useZoom(holder, drawing) {
  const width = useWidth(holder);
  const [chosen, setChosen] = useState(null);
  const fixed = useRef(null);
  const zoom = chosen ?? (width ? Math.min(1, Math.max(READABLE, width / drawing.width)) : 1);
  const latest = useRef(zoom);
  latest.current = zoom;
  // the point of the graph at `x`, `y` of the area stays where it is
  const set = (value, x = holder.current.clientWidth / 2, y = holder.current.clientHeight / 2) => {
    const { scrollLeft, scrollTop } = holder.current;
    const before = latest.current;
    fixed.current = { x, y, left: (scrollLeft + x) / before, top: (scrollTop + y) / before };
    setChosen(within(SMALLEST, value, LARGEST));
  };
  useLayoutEffect(() => {
    if (!fixed.current) return;
    const { x, y, left, top } = fixed.current;
    fixed.current = null;
    holder.current.scrollTo(left * zoom - x, top * zoom - y);
  }, [zoom]);
  const fit = () => {
    const height = Math.min(innerHeight * SHARE_OF_WINDOW, drawing.height);
    set(Math.min(1, width / drawing.width, height / drawing.height));
  };
  useEffect(() => setChosen(null), [drawing]);
  return { zoom, width, latest, set, fit };
}

// Ctrl and the wheel, which is also what a touchpad sends for a pinch; two fingers; and the keys + - 0.
function useGestures(holder, { latest, set, fit }) {
  const current = useRef();
  current.current = { set, fit };
  useEffect(() => {
    const element = holder.current;
    const at = (x, y) => { const box = element.getBoundingClientRect(); return [x - box.left, y - box.top]; };
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      current.current.set(latest.current * Math.exp(-within(-50, event.deltaY, 50) / 100), ...at(event.clientX, event.clientY));
    };
    let pinch = null;
    const fingers = ({ touches: [a, b] }) => ({
      distance: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY),
      middle: at((a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2),
    });
    const begin = (event) => { pinch = event.touches.length === 2 ? { ...fingers(event), zoom: latest.current } : null; };
    const move = (event) => {
      if (!pinch || event.touches.length !== 2) return;
      event.preventDefault();
      const { distance, middle } = fingers(event);
      current.current.set((pinch.zoom * distance) / pinch.distance, ...middle);
    };
    const listeners = [["wheel", wheel], ["touchstart", begin], ["touchmove", move]];
    listeners.forEach(([name, listener]) => element.addEventListener(name, listener, { passive: false }));
    return () => listeners.forEach(([name, listener]) => element.removeEventListener(name, listener));
  }, []);
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { "+": () => set(latest.current * STEP), "=": () => set(latest.current * STEP), "-": () => set(latest.current / STEP), 0: fit }[event.key];
    if (action) { event.preventDefault(); action(); }
  };
}

// The mouse moves the graph where there is no node.
function startDrag(event) {
  if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest("button")) return;
  const element = event.currentTarget;
  const { scrollLeft, scrollTop } = element;
  const move = (moved) => element.scrollTo(scrollLeft + event.clientX - moved.clientX, scrollTop + event.clientY - moved.clientY);
  const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end);
}

// All nodes as small boxes, and a frame around those that are in view. The keyboard has the search and the arrow keys.
function Minimap({ drawing, nodes, view, zoom, onMove }) {
  const scale = Math.min(MAP.width / drawing.width, MAP.height / drawing.height);
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    onMove((event.clientX - box.left) / scale, (event.clientY - box.top) / scale);
  };
  return html`<svg class="minimap" aria-hidden="true" width=${drawing.width * scale} height=${drawing.height * scale}
    viewBox="0 0 ${drawing.width} ${drawing.height}" onPointerDown=${(event) => { event.currentTarget.setPointerCapture(event.pointerId); move(event); }}
    onPointerMove=${(event) => event.buttons === 1 && move(event)}>
    ${nodes.map(({ name, status }) => { const place = drawing.nodes[name]; return html`<rect key=${name} class="mini ${status}"
      x=${place.left} y=${place.top} width=${place.width} height=${place.height} />`; })}
    <rect class="mini-view" x=${view.left / zoom} y=${view.top / zoom} width=${view.width / zoom} height=${view.height / zoom} />
  </svg>`;
}

function Search({ nodes, text, found, onText, onChoose }) {
  const keys = (event) => { if (event.key === "Enter" && found.length) { event.preventDefault(); onChoose(found[0]); } };
  return html`<label class="search node-search"><span class="hidden">Find a node</span><${Icon} name="search" />
    <input type="search" placeholder="Find a node" value=${text} onInput=${(event) => onText(event.target.value)} onKeyDown=${keys} />
    <span class="hidden" role="status">${text && `${found.length} of ${nodes.length} nodes`}</span></label>`;
}

// `children(isFound)` draws the graph; `isFound` says whether a node is one that is searched for.
export function Canvas({ drawing, nodes, onSelect, children }) {
  const holder = useRef();
  const zooming = useZoom(holder, drawing);
  const { zoom, width, latest, set, fit } = zooming;
  const keys = useGestures(holder, zooming);
  const [text, setText] = useState("");
  const [view, setView] = useState({ left: 0, top: 0, width: 0, height: 0 });
  const wanted = text.trim().toLowerCase();
  const found = wanted ? nodes.map((node) => node.name).filter((name) => name.toLowerCase().includes(wanted)) : [];
  const measure = () => {
    if (!holder.current) return; // the page was left before the effect ran
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = holder.current;
    setView({ left: scrollLeft, top: scrollTop, width: clientWidth, height: clientHeight });
  };
  const center = (left, top) => {
    if (!holder.current) return;
    const { clientWidth, clientHeight } = holder.current;
    holder.current.scrollTo(left * zoom - clientWidth / 2, top * zoom - clientHeight / 2);
  };
  const show = (name) => {
    const place = drawing.nodes[name];
    if (place) center(place.left + place.width / 2, place.top + place.height / 2);
  };
  // a graph that is larger than its card starts with its first source in view
  useEffect(() => { if (nodes.length) show(nodes[0].name); }, [drawing, width > 0]);
  useEffect(() => { if (found.length) show(found[0]); }, [found[0]]);
  useEffect(measure, [zoom, width, drawing]);
  const size = { width: `${drawing.width}px`, height: `${drawing.height}px`, zoom: String(zoom) };
  return html`<div class="canvas">
    <div class="canvas-tools">
      ${nodes.length > SEARCHED && html`<${Search} nodes=${nodes} text=${text} found=${found} onText=${setText} onChoose=${onSelect} />`}
      <${Button} icon="minus" kind="quiet" label="Zoom out" disabled=${zoom <= SMALLEST} onClick=${() => set(latest.current / STEP)} />
      <span class="muted small number zoom-level" title="Ctrl and the mouse wheel, or two fingers">${Math.round(zoom * 100)} %</span>
      <${Button} icon="plus" kind="quiet" label="Zoom in" disabled=${zoom >= LARGEST} onClick=${() => set(latest.current * STEP)} />
      <${Button} icon="fit" kind="quiet" label="Show the whole graph" onClick=${fit} />
    </div>
    <div class="graph-scroll" ref=${holder} tabindex="0" role="region" aria-label="Graph" onScroll=${measure} onKeyDown=${keys} onPointerDown=${startDrag}>
      <div class="graph" style=${size}>${children((name) => found.includes(name))}</div></div>
    ${nodes.length > MAPPED && html`<${Minimap} drawing=${drawing} nodes=${nodes} view=${view} zoom=${zoom} onMove=${center} />`}
  </div>`;
}
