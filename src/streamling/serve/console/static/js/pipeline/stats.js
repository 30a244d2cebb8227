import { count, duration, megabytes, rate } from "../format.js";
import { html } from "../ui.js";

function Stat({ label, value, note }) {
  return html`<div class="stat"><dt>${label}</dt><dd><strong class="number">${value}</strong><span class="muted small">${note}</span></dd></div>`;
}

// The sum of the known numbers; null if there are none.
function sumOf(nodes, field) {
  const known = nodes.map((node) => node[field]).filter((value) => value !== null && value !== undefined);
  return known.length ? known.reduce((total, value) => total + value, 0) : null;
}

const sum = (nodes, kind, field) => sumOf(nodes.filter((node) => node.kind === kind), field);

export function Stats({ topology }) {
  const { nodes, memory } = topology;
  const targets = nodes.filter((node) => !node.takes_dead_letters);
  return html`<dl class="stats">
    <${Stat} label="Read" value=${rate(sum(nodes, "source", "rate_out"))} note="${count(sum(nodes, "source", "rows_out"))} rows" />
    <${Stat} label="Delivered" value=${rate(sum(targets, "sink", "rate_out"))} note="${count(sum(targets, "sink", "rows_out"))} rows" />
    <${Stat} label="Lag" value=${count(sumOf(nodes, "lag"))} note="rows not read yet" />
    <${Stat} label="Last checkpoint" value=${topology.checkpoint_age_s === null || topology.checkpoint_age_s === undefined ? "–" : duration(topology.checkpoint_age_s)}
      note=${topology.epoch === null || topology.epoch === undefined ? "none yet" : `ago, epoch ${topology.epoch}`} />
    <${Stat} label="Rejected" value=${count(sumOf(nodes, "rejected"))} note="rows" />
    <${Stat} label="Memory" value=${megabytes(memory ? (memory.python_mb ?? 0) + (memory.jvm_mb ?? 0) : null)}
      note=${memory ? `Python ${megabytes(memory.python_mb)}, JVM ${megabytes(memory.jvm_mb)}` : ""} />
  </dl>`;
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
