import { follow, lines } from "../api.js";
import { clock } from "../format.js";
import { useVisible } from "../hooks.js";
import { Empty, html, useEffect, useRef, useState } from "../ui.js";

const KEPT = 500;
const LEVELS = { all: () => true, warnings: (level) => /warn|error|critical/i.test(level), errors: (level) => /error|critical/i.test(level) };

function useLogs(base) {
  const visible = useVisible();
  const [records, setRecords] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!visible) return undefined;
    const stop = new AbortController();
    let waiting = [];
    let timer = 0;
    const flush = () => {
      timer = 0;
      const added = waiting;
      waiting = [];
      setRecords((known) => [...(known ?? []), ...added].slice(-KEPT));
    };
    const read = async (opened) => {
      setRecords(null);
      timer ||= setTimeout(flush, 500);
      await lines(`${base}/logs?follow=true&tail=200`, (record) => {
        opened();
        waiting.push(record);
        timer ||= setTimeout(flush, 200);
      }, stop.signal);
      return false;
    };
    follow(read, ({ error: failure = null }) => setError(failure), stop.signal);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [base, visible]);
  return { records, error };
}

export function Logs({ base, node }) {
  const { records, error } = useLogs(base);
  const [level, setLevel] = useState("all");
  const [text, setText] = useState("");
  const box = useRef();
  const isAtEnd = useRef(true);
  const wanted = text.trim().toLowerCase();
  const shown = (records ?? []).filter((record) => LEVELS[level](record.level) && (!node || record.node === node)
    && (!wanted || `${record.node ?? ""} ${record.message}`.toLowerCase().includes(wanted)));
  useEffect(() => { if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight; });
  const remember = ({ currentTarget: it }) => { isAtEnd.current = it.scrollHeight - it.scrollTop - it.clientHeight < 24; };
  return html`<div class="logs">
    <div class="filters">
      <label class="field-inline">Level <select value=${level} onChange=${(event) => setLevel(event.target.value)}>
        <option value="all">all</option><option value="warnings">warnings and errors</option><option value="errors">errors</option></select></label>
      <label class="field-inline">Contains <input value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      ${error && html`<span class="muted small">${error.message}</span>`}
    </div>
    <div class="log-box" ref=${box} onScroll=${remember} tabindex="0" role="log" aria-label="Log records" aria-live="off">
      ${records && shown.length === 0 && html`<${Empty} title="No log records"><p>The pipeline has logged nothing${node ? " about this node" : ""}${
        wanted || level !== "all" ? " that matches" : ""} yet.</p><//>`}
      ${shown.map((record, index) => html`<p key=${index} class="log-line ${record.level.toLowerCase()}"><time>${clock(record.time)}</time>
        <span class="log-level">${record.level.toLowerCase()}</span>${record.node && html`<span class="log-node">${record.node}</span>`}
        <span class="log-text">${record.message}</span></p>`)}
    </div></div>`;
}
