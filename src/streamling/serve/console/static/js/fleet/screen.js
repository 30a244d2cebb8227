import { useAccess } from "../access.js";
import { useActions } from "../actions.js";
import { AsOf } from "../as_of.js";
import { count, dateAndTime, rate } from "../format.js";
import { useVisible } from "../hooks.js";
import { Empty, ErrorBox, html, Icon, useEffect, useRef, useState } from "../ui.js";
import { countByGroup, GROUPS, select } from "./selection.js";
import { FleetStore } from "./store.js";
import { FleetTable } from "./table.js";

function useFleet() {
  const [, setVersion] = useState(0);
  const store = useRef();
  store.current ??= new FleetStore(() => setVersion((version) => version + 1));
  const visible = useVisible();
  useEffect(() => {
    if (!visible) return undefined;
    store.current.start();
    return () => store.current.stop();
  }, [visible]);
  return store.current;
}

function Filters({ filter, change, counts, namespaces }) {
  return html`<div class="filters">
    <label class="search"><span class="hidden">Search pipelines</span><${Icon} name="search" />
      <input type="search" placeholder="Search by name or namespace" value=${filter.text}
        onInput=${(event) => change({ text: event.target.value })} /></label>
    <div class="chips" role="group" aria-label="State">
      ${Object.entries(GROUPS).map(([group, [text]]) => html`<button type="button" key=${group} class="chip"
        aria-pressed=${filter.group === group ? "true" : "false"} onClick=${() => change({ group })}>
        ${text} <span class="chip-count">${counts[group]}</span></button>`)}
    </div>
    ${namespaces.length > 1 && html`<label><span class="hidden">Namespace</span>
      <select value=${filter.namespace} onChange=${(event) => change({ namespace: event.target.value })}>
        <option value="">All namespaces</option>${namespaces.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select></label>`}
  </div>`;
}

export function FleetScreen() {
  const fleet = useFleet();
  const mayChange = useAccess().may("operator");
  const [filter, setFilter] = useState({ text: "", group: "all", namespace: "", sort: "name" });
  const [act, dialog] = useActions({ onDone: () => fleet.refresh(), onDeleted: () => fleet.refresh() });
  const change = (part) => setFilter((known) => ({ ...known, ...part }));
  useEffect(() => { document.title = "Pipelines – Streamling"; }, []);
  const all = [...fleet.pipelines.values()];
  const shown = select(all, filter);
  const namespaces = [...new Set(all.map((pipeline) => pipeline.namespace))].sort();
  const total = all.reduce((sum, pipeline) => sum + (pipeline.costs?.rows_per_second ?? 0), 0);
  const staleSince = all.find((pipeline) => pipeline.stale_since)?.stale_since;
  const isLoaded = fleet.isComplete || all.length > 0;
  return html`<div class="fleet">
    <div class="title-row"><h1>Pipelines</h1>
      <p class="muted" aria-live="off">${isLoaded ? `${count(all.length)} in total, ${rate(total)} rows delivered` : "Loading …"}</p>
      ${fleet.error && html`<${AsOf} at=${fleet.read} />`}
      ${staleSince && html`<p class="as-of">Old since ${dateAndTime(staleSince)}: the server cannot read its database</p>`}
      ${mayChange && html`<a class="button primary" href="#/new">New pipeline</a>`}</div>
    ${fleet.error && html`<${ErrorBox} error=${fleet.error} title="The list cannot be updated" />`}
    <${Filters} filter=${filter} change=${change} counts=${countByGroup(all)} namespaces=${namespaces} />
    ${shown.length > 0 && html`<${FleetTable} pipelines=${shown} history=${fleet.history} sort=${filter.sort}
      onSort=${(sort) => change({ sort })} act=${act} />`}
    ${fleet.isComplete && all.length === 0 && html`<${Empty} title="There are no pipelines yet">
      <p>Create one from a template or paste a pipeline file. Files in the folder of <code>serve --dir</code> appear here too.</p>
      ${mayChange && html`<a class="button primary" href="#/new">New pipeline</a>`}<//>`}
    ${all.length > 0 && shown.length === 0 && html`<${Empty} title="No pipeline matches">
      <p>Change the search text or the filters.</p>
      <button type="button" class="button" onClick=${() => change({ text: "", group: "all", namespace: "" })}>Show all</button><//>`}
    ${dialog}
  </div>`;
}
