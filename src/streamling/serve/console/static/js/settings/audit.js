// Who changed what, newest first.
import { get } from "../api.js";
import { dateAndTime } from "../format.js";
import { usePolling } from "../hooks.js";
import { pipelineLink } from "../router.js";
import { Button, Empty, ErrorBox, html, Icon, useEffect, useState } from "../ui.js";

const READ = 1000;
const SHOWN = 100;
const ALL = "";

const subject = ({ namespace, name }) => (namespace ? `${namespace}/${name}` : name);

function matches(entry, text, action) {
  const words = `${entry.actor} ${entry.action} ${subject(entry)} ${entry.detail}`.toLowerCase();
  return (!action || entry.action === action) && words.includes(text.trim().toLowerCase());
}

export function AuditScreen() {
  const { data, error } = usePolling((signal) => get(`/api/v1/audit?limit=${READ}`, signal), 10, "audit");
  const [text, setText] = useState("");
  const [action, setAction] = useState(ALL);
  const [most, setMost] = useState(SHOWN);
  useEffect(() => { document.title = "Audit – Streamling"; }, []);
  const entries = data?.items ?? [];
  const found = entries.filter((entry) => matches(entry, text, action));
  const actions = [...new Set(entries.map((entry) => entry.action))].sort();
  return html`<div class="title-row"><h1>Audit</h1>
      <p class="muted">${data ? `${found.length} of ${entries.length === READ ? `the newest ${READ}` : entries.length} entries` : "Loading …"}</p></div>
    ${error && html`<${ErrorBox} error=${error} title="The audit log cannot be read" />`}
    ${data && html`<div class="filters">
      <label class="search"><span class="hidden">Search entries</span><${Icon} name="search" />
        <input type="search" placeholder="Search by who, what or which" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <label><span class="hidden">Action</span><select value=${action} onChange=${(event) => setAction(event.target.value)}>
        <option value=${ALL}>All actions</option>${actions.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label></div>`}
    ${data && found.length === 0 && html`<${Empty} title="No entries"><p>${entries.length ? "Change the search text or the action." : "Nothing has been changed yet."}</p><//>`}
    ${found.length > 0 && html`<section class="card"><div class="scroll-x" tabindex="0" role="region" aria-label="Entries"><table class="data audit">
      <thead><tr><th>Time</th><th>Who</th><th>Action</th><th>What</th><th class="number">Version</th><th>Changed</th></tr></thead>
      <tbody>${found.slice(0, most).map((entry, index) => html`<tr key=${`${entry.at} ${index}`}><td class="time">${dateAndTime(entry.at)}</td><td>${entry.actor}</td><td>${entry.action}</td>
        <td>${entry.namespace ? html`<a href=${pipelineLink(entry)}>${subject(entry)}</a>` : subject(entry)}</td>
        <td class="number">${entry.generation ?? "–"}</td><td>${entry.detail || "–"}</td></tr>`)}</tbody></table></div></section>`}
    ${found.length > most && html`<p class="more"><${Button} onClick=${() => setMost(most + SHOWN)}>Show more<//></p>`}`;
}
