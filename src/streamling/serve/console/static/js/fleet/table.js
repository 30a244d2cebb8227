// A table that draws only the rows on the screen.
import { useAccess } from "../access.js";
import { isPaused } from "../actions.js";
import { clock, cores, count, rate, since, until } from "../format.js";
import { useMedia } from "../hooks.js";
import { pipelineLink } from "../router.js";
import { Button, html, StateBadge, useEffect, useRef, useState } from "../ui.js";
import { isUnstable, shownState } from "./selection.js";
import { Sparkline } from "./sparkline.js";
import { keyOf } from "./store.js";

const ROW = 56;
const CARD = 96;
const BEYOND = 6;
const COLUMNS = [["name", "Pipeline", true], ["state", "State", true], ["rate", "Rows", true], ["spark", "Trend", false],
  ["lag", "Lag", true], ["cpu", "CPU", true], ["error", "Last error", false], ["actions", "Actions", false]];

function useWindow(element, total, height) {
  const [range, setRange] = useState([0, 30]);
  useEffect(() => {
    let frame = 0;
    const update = () => {
      frame = 0;
      if (!element.current) return;
      const above = -element.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(above / height) - BEYOND);
      const last = Math.min(total, Math.ceil((above + innerHeight) / height) + BEYOND);
      setRange((known) => (known[0] === first && known[1] === last ? known : [first, Math.max(first, last)]));
    };
    const schedule = () => { frame ||= requestAnimationFrame(update); };
    update();
    addEventListener("scroll", schedule, { passive: true });
    addEventListener("resize", schedule);
    return () => { removeEventListener("scroll", schedule); removeEventListener("resize", schedule); cancelAnimationFrame(frame); };
  }, [total, height]);
  return range;
}

// What the list says about a failure: of a pipeline that runs again, how long ago that was.
function errorOf(pipeline) {
  if (pipeline.next_attempt_at) return `next attempt in ${until(pipeline.next_attempt_at)}: ${pipeline.error}`;
  if (isUnstable(pipeline)) return `failed ${since(pipeline.last_error.at)} ago: ${pipeline.last_error.message}`;
  return pipeline.error || pipeline.reason;
}

function costOf({ costs }) {
  const others = costs?.shared_with ?? 0;
  return `of a core, without Spark jobs${others > 0 ? `; its topic is read once for this and ${others} other sources` : ""}`;
}

function Row({ pipeline, values, top, index, act, mayChange }) {
  const paused = isPaused(pipeline);
  const cannotChange = pipeline.managed_by === "dir";
  const { name } = pipeline;
  const isRunning = pipeline.state === "running";
  return html`<div role="row" class="fleet-row" aria-rowindex=${index + 2} style=${{ transform: `translateY(${top}px)` }}>
    <div role="cell" class="c-name"><a href=${pipelineLink(pipeline)}>${name}</a><span class="muted">${pipeline.namespace}</span></div>
    <div role="cell" class="c-state"><${StateBadge} state=${shownState(pipeline)} />
      <span class="muted small">${since(pipeline.state_since)}${pipeline.restarts > 0 && `, ${pipeline.restarts} ${pipeline.restarts === 1 ? "restart" : "restarts"}`}</span></div>
    <div role="cell" class="c-rate number">${rate(isRunning ? pipeline.costs?.rows_per_second : null)}</div>
    <div role="cell" class="c-spark"><${Sparkline} values=${values} /></div>
    <div role="cell" class="c-lag number">${count(pipeline.lag)}${!isRunning && pipeline.lag !== null
      && html`<span class="muted small">${" "}as of ${clock(pipeline.state_since)}</span>`}</div>
    <div role="cell" class="c-cpu number" title=${costOf(pipeline)}>${cores(isRunning ? pipeline.costs?.cpu_percent : null)}</div>
    <div role="cell" class="c-error" title=${errorOf(pipeline)}>${errorOf(pipeline)}</div>
    <div role="cell" class="c-actions">${mayChange && html`
      <${Button} icon=${paused ? "play" : "paused"} kind="quiet" label="${paused ? "Resume" : "Pause"} ${name}"
        disabled=${cannotChange} onClick=${() => act(paused ? "resume" : "pause", pipeline)} />
      <${Button} icon="retry" kind="quiet" label="Restart ${name}" onClick=${() => act("restart", pipeline)} />
      <${Button} icon="trash" kind="quiet" label="Delete ${name}" disabled=${cannotChange} onClick=${() => act("delete", pipeline)} />`}
    </div>
  </div>`;
}

export function FleetTable({ pipelines, history, sort, onSort, act }) {
  const mayChange = useAccess().may("operator");
  const height = useMedia("(max-width: 720px)") ? CARD : ROW;
  const body = useRef();
  const [first, last] = useWindow(body, pipelines.length, height);
  return html`<div class="fleet-table" role="table" aria-label="Pipelines" aria-rowcount=${pipelines.length + 1}>
    <div role="rowgroup"><div role="row" class="fleet-head" aria-rowindex="1">
      ${COLUMNS.map(([key, text, sortable]) => html`<div role="columnheader" key=${key} class="c-${key}"
        aria-sort=${sortable ? (sort === key ? (key === "name" || key === "state" ? "ascending" : "descending") : "none") : undefined}>
        ${sortable ? html`<button type="button" class="sort" onClick=${() => onSort(key)}>${text}</button>` : text}</div>`)}
    </div></div>
    <div role="rowgroup" class="fleet-body" ref=${body} style=${{ height: `${pipelines.length * height}px` }}>
      ${pipelines.slice(first, last).map((pipeline, offset) => html`<${Row} key=${keyOf(pipeline)} pipeline=${pipeline} act=${act} mayChange=${mayChange}
        index=${first + offset} values=${history.get(keyOf(pipeline))} top=${(first + offset) * height} />`)}
    </div>
  </div>`;
}
