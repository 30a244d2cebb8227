// Rows with their kind; every value is text.
import { cell } from "../format.js";
import { html } from "../ui.js";

const KIND_COLUMN = "_gs_op";
export const KINDS = { i: ["insert", "+"], u: ["update", "~"], d: ["delete", "−"] };

function Kind({ kind }) {
  const [name, sign] = KINDS[kind] ?? ["row", "·"];
  return html`<span class="kind ${name}" title=${name}><span aria-hidden="true">${sign}</span> ${name}</span>`;
}

const columnsOf = (rows) => [...new Set(rows.flatMap(({ row }) => Object.keys(row)))].filter((name) => name !== KIND_COLUMN);

// `rows`: a list of `{ id, row }`
export function RowsTable({ rows, label }) {
  const columns = columnsOf(rows);
  return html`<div class="scroll-both" tabindex="0" role="region" aria-label=${label}><table class="data rows">
    <thead><tr><th>Kind</th>${columns.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map(({ id, row }) => html`<tr key=${id}><td><${Kind} kind=${row[KIND_COLUMN]} /></td>
      ${columns.map((name) => html`<td key=${name} class="code ${row[name] === null || row[name] === undefined ? "null" : ""}" title=${cell(row[name])}>${cell(row[name])}</td>`)}
    </tr>`)}</tbody></table></div>`;
}
