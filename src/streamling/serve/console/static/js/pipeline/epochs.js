// Epochs over time: how long each took, in which phase, and which node was late.
import { get } from "../api.js";
import { cell, clock, milliseconds, since } from "../format.js";
import { usePolling } from "../hooks.js";
import { Empty, ErrorBox, html, StateBadge, useState } from "../ui.js";

const PHASES = [["mark_ms", "mark", "sources note their positions and send markers"],
  ["flush_ms", "flush", "markers pass the nodes, sinks write everything before them"],
  ["store_ms", "store", "positions are stored and committed"]];

const SHORT = 80;
const STARTING_MILLISECONDS = 3000;

// The newest epoch with something to show: one that has just started has no answers yet.
function newest([first, second]) {
  const hasJustStarted = first.status === "running" && Date.now() - Date.parse(first.started_at) < STARTING_MILLISECONDS;
  return hasJustStarted && second ? second : first;
}

// A few very long epochs, such as the first one, must not make all others invisible.
function usualLongest(epochs) {
  const durations = epochs.map((epoch) => epoch.duration_ms ?? 0).sort((a, b) => a - b);
  return Math.max(durations[Math.floor(0.75 * (durations.length - 1))], 1);
}

// How long each phase has taken; in an epoch that is running, also the current one, so far.
function phasesOf(epoch) {
  const known = PHASES.map(([key]) => epoch.phases?.[key] ?? null);
  const current = epoch.status === "running" ? known.indexOf(null) : -1;
  const ended = known.reduce((sum, value) => sum + (value ?? 0), 0);
  const soFar = Math.max(0, Date.now() - Date.parse(epoch.started_at) - ended);
  return PHASES.map(([, name], number) => (number === current
    ? { name, value: soFar, text: `${name} ${milliseconds(soFar)} so far` }
    : { name, value: known[number] ?? 0, text: `${name} ${milliseconds(known[number])}` }));
}

function PhaseBar({ epoch, longest }) {
  const phases = phasesOf(epoch);
  const text = phases.map((phase) => phase.text).join(", ");
  const total = phases.reduce((sum, { value }) => sum + value, 0);
  return html`<span class="phases" role="img" aria-label=${text} title=${text}>
    ${phases.map(({ name, value }) => html`<span key=${name} class="phase ${name}" style=${{ width: `${(100 * value) / Math.max(longest, total)}%` }} />`)}
  </span>`;
}

// The sink that acknowledged last, or those that have not yet.
function lateOf(epoch) {
  if (epoch.waiting_for?.length) return `waiting for ${epoch.waiting_for.join(", ")}`;
  const acks = Object.entries(epoch.acks ?? {}).sort((a, b) => b[1].at_ms - a[1].at_ms);
  return acks.length ? acks[0][0] : "–";
}

function Timeline({ epoch }) {
  const events = [...Object.entries(epoch.markers ?? {}).map(([name, { at_ms }]) => [name, "marker sent", at_ms]),
    ...Object.entries(epoch.acks ?? {}).map(([name, { at_ms }]) => [name, "acknowledged", at_ms])];
  const longest = Math.max(epoch.duration_ms ?? 0, ...events.map(([, , at]) => at), 1);
  return html`<table class="timeline data"><caption>When nodes answered</caption><thead><tr><th>Node</th><th>Event</th><th class="number">After</th><th>Share of the epoch</th></tr></thead>
    <tbody>${events.map(([name, what, at]) => html`<tr key=${name + what}><th scope="row">${name}</th><td>${what}</td>
      <td class="number">${milliseconds(at)}</td>
      <td><span class="track"><span class="track-bar" style=${{ width: `${(100 * at) / longest}%` }} /></span></td></tr>`)}
      ${(epoch.waiting_for ?? []).map((name) => html`<tr key=${`${name} waiting`}><th scope="row">${name}</th>
        <td colspan="3"><${StateBadge} state="blocked" label="has not answered" /></td></tr>`)}
    </tbody></table>`;
}

function Position({ value }) {
  if (value.length <= SHORT) return value;
  return html`<details><summary>${value.slice(0, SHORT)} …</summary>${value}</details>`;
}

function Positions({ positions }) {
  const rows = Object.entries(positions ?? {}).flatMap(([source, entries]) =>
    Object.entries(entries ?? {}).map(([key, value]) => [source, key, cell(value)]));
  if (!rows.length) return html`<p class="muted">This epoch has no positions.</p>`;
  return html`<table class="data"><caption>Positions</caption><thead><tr><th>Source</th><th>Key</th><th>Value</th></tr></thead>
    <tbody>${rows.map(([source, key, value]) => html`<tr key=${source + key}><th scope="row">${source}</th><td class="code">${key}</td>
      <td class="code"><${Position} value=${value} /></td></tr>`)}</tbody></table>`;
}

export function Epochs({ base }) {
  const { data: epochs, error } = usePolling((signal) => get(`${base}/epochs?limit=30`, signal), 2, `${base}/epochs`);
  const [chosen, setChosen] = useState(null);
  if (error && !epochs) return html`<${ErrorBox} error=${error} title="Epochs cannot be read" />`;
  if (!epochs) return html`<p class="loading">Loading …</p>`;
  if (!epochs.length) {
    return html`<${Empty} title="No epoch yet"><p>An epoch starts with the next checkpoint. Use “Checkpoint” to start one now.</p><//>`;
  }
  const longest = usualLongest(epochs);
  const epoch = epochs.find((each) => each.epoch === chosen) ?? newest(epochs);
  return html`<div class="epochs">
    <div class="epoch-list scroll-y" tabindex="0" role="region" aria-label="Epochs"><table class="data">
      <thead><tr><th>Epoch</th><th>Status</th><th>Started</th><th class="number">Duration</th><th>Phases</th><th>Last sink</th></tr></thead>
      <tbody>${epochs.map((each) => html`<tr key=${each.epoch} class=${each === epoch ? "chosen" : ""}>
        <th scope="row"><button type="button" class="link" aria-pressed=${each === epoch ? "true" : "false"}
          onClick=${() => setChosen(each.epoch)}>${each.epoch}</button></th>
        <td><${StateBadge} state=${each.status} /></td><td class="time">${clock(each.started_at)}</td>
        <td class="number">${each.status === "running" ? `${since(each.started_at)} so far` : milliseconds(each.duration_ms)}</td><td><${PhaseBar} epoch=${each} longest=${longest} /></td>
        <td>${lateOf(each)}</td></tr>`)}</tbody></table></div>
    <section class="epoch-detail" aria-label="Epoch ${epoch.epoch}"><h3>Epoch ${epoch.epoch}${chosen === null ? " (newest)" : ""}</h3>
      <dl class="pairs">${PHASES.map(([key, name, text]) => html`<dt key=${`${key}t`}><span class="phase ${name}" />${name}</dt>
        <dd key=${key}><span class="number">${milliseconds(epoch.phases?.[key])}</span> <span class="muted small">${text}</span></dd>`)}</dl>
      <${Timeline} epoch=${epoch} /><${Positions} positions=${epoch.positions} />
    </section>
  </div>`;
}
