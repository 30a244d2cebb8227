import { count, duration, megabytes, rate } from "../format.js";
import { html } from "../ui.js";
import { Chart } from "./chart.js";

function Stat({ label, value, note }) {
  return html`<div class="stat"><dt>${label}</dt><dd><strong class="number">${value}</strong><span class="muted small">${note}</span></dd></div>`;
}

const sum = (nodes, kind, field) => nodes.filter((node) => node.kind === kind).reduce((total, node) => total + (node[field] ?? 0), 0);

function lagOf(nodes) {
  const known = nodes.map((node) => node.lag).filter((lag) => lag !== null && lag !== undefined);
  return known.length ? known.reduce((total, lag) => total + lag, 0) : null;
}

export function Stats({ topology }) {
  const { nodes, memory } = topology;
  const targets = nodes.filter((node) => !node.takes_dead_letters);
  const rejected = nodes.reduce((total, node) => total + (node.rejected ?? 0), 0);
  return html`<dl class="stats">
    <${Stat} label="Read" value=${rate(sum(nodes, "source", "rate_out"))} note="${count(sum(nodes, "source", "rows_out"))} rows" />
    <${Stat} label="Delivered" value=${rate(sum(targets, "sink", "rate_out"))} note="${count(sum(targets, "sink", "rows_out"))} rows" />
    <${Stat} label="Lag" value=${count(lagOf(nodes))} note="rows not read yet" />
    <${Stat} label="Last checkpoint" value=${topology.checkpoint_age_s === null || topology.checkpoint_age_s === undefined ? "–" : duration(topology.checkpoint_age_s)}
      note=${topology.epoch === null || topology.epoch === undefined ? "none yet" : `ago, epoch ${topology.epoch}`} />
    <${Stat} label="Rejected" value=${count(rejected)} note="rows" />
    <${Stat} label="Memory" value=${megabytes(memory ? (memory.python_mb ?? 0) + (memory.jvm_mb ?? 0) : null)}
      note=${memory ? `Python ${megabytes(memory.python_mb)}, JVM ${megabytes(memory.jvm_mb)}` : ""} />
  </dl>`;
}

export function Charts({ history = {} }) {
  const interval = history.interval_s ?? 1;
  return html`<div class="charts">
    <${Chart} title="Rows per second" interval=${interval} format=${rate} empty="No rows have been counted yet." series=${[
      { label: "read", tone: "accent", values: history.rate_in ?? [] },
      { label: "delivered", tone: "good", dash: [6, 3], values: history.rate_out ?? [] }]} />
    <${Chart} title="Lag" interval=${interval} format=${count} empty="No source of this pipeline knows how many rows it has not read yet." series=${[{ label: "rows", tone: "warn", values: history.lag ?? [] }]} />
  </div>`;
}

export function ProgressList({ nodes }) {
  const reading = nodes.filter((node) => node.progress);
  if (!reading.length) return null;
  return html`<ul class="progress-list">${reading.map(({ name, progress }) => html`<li key=${name}>
    <label>${name} ${progress.part ? `(${progress.part})` : ""}: ${count(progress.done)}
      ${progress.total ? ` of ${count(progress.total)}` : ""} ${progress.unit}
      <progress max=${progress.total ?? undefined} value=${progress.total ? progress.done : undefined} /></label>
    <span class="muted small">${progress.seconds_left ? `about ${duration(progress.seconds_left)} left` : ""}</span>
  </li>`)}</ul>`;
}
