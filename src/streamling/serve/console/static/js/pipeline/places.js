// Places in a pipeline file, such as orders.yaml:12:5, as links.
import { html } from "../ui.js";

const PLACE = /[^\s"'(]+\.ya?ml:(\d+)(?::(\d+))?/g;

// `link(line, column, text)` makes the link; without it the text stays as it is.
export function withPlaces(text, link) {
  if (!link) return text;
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(PLACE)) {
    parts.push(text.slice(end, found.index), link(Number(found[1]), Number(found[2] ?? 1), found[0]));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}

// Links to the editor; for those who may not edit, to the line in the file below the graph.
export function placeLink(editHref, onShow) {
  if (!editHref && !onShow) return null;
  return (line, column, text) => editHref
    ? html`<a key=${line} href="${editHref}?line=${line}&column=${column}">${text}</a>`
    : html`<button key=${line} type="button" class="link" onClick=${() => onShow({ line, column })}>${text}</button>`;
}
