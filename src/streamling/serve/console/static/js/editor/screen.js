// A pipeline file in an editor: a new pipeline, or a new version of an existing one.
import { get, request } from "../api.js";
import { ConfirmDialog } from "../dialogs.js";
import { pipelineApi, pipelineLink } from "../router.js";
import { Button, ErrorBox, html, Icon, toast, useEffect, useRef, useState } from "../ui.js";
import { isActive, PreviewCard, usePreview } from "../pipeline/preview.js";
import { useDraft } from "./draft.js";
import { createEditor, goTo, replaceText, showProblems } from "./editor.js";

const PAUSE = 400;
const SIZES = ["xs", "s", "m", "l", "xl"];
const NEW = { name: "", namespace: "default", size: "m", isolation: "shared", desired: "running", definition: "" };

// Problems of the text; `null` while it is being checked or empty.
function useProblems(text) {
  const [result, setResult] = useState({ problems: null, error: null });
  useEffect(() => {
    setResult({ problems: null, error: null });
    if (!text.trim()) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      request("POST", "/api/v1/validate", { body: { definition: text }, signal: stop.signal }).then(
        ({ problems }) => setResult({ problems, error: null }),
        (error) => stop.signal.aborted || setResult({ problems: null, error }));
    }, PAUSE);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [text]);
  return result;
}

function Verdict({ text, result, onGoTo }) {
  const { problems, error } = result;
  let content = html`<p class="verdict muted">${text.trim() ? "Checking …" : "Choose a template or paste a pipeline file."}</p>`;
  if (error) content = html`<${ErrorBox} error=${error} title="The file cannot be checked" />`;
  else if (problems?.length === 0) content = html`<p class="verdict good"><${Icon} name="finished" />No problems found.</p>`;
  else if (problems) {
    content = html`<p class="verdict bad"><${Icon} name="failed" />${problems.length} ${problems.length === 1 ? "problem" : "problems"}</p>
      <ul class="problems">${problems.map((problem, index) => html`<li key=${index}>
        ${problem.line > 0 && html`<button type="button" class="link" onClick=${() => onGoTo(problem)}>Line ${problem.line}${problem.node ? `, ${problem.node}` : ""}</button>`}
        <p>${problem.message}</p>${problem.remedy && html`<p class="remedy">${problem.remedy}</p>`}</li>`)}</ul>`;
  }
  return html`<section class="card verdict-card" aria-label="Check" aria-live="polite">${content}</section>`;
}

function Choice({ label, value, options, onChange }) {
  return html`<label class="field">${label}<select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([key, text]) => html`<option key=${key} value=${key}>${text}</option>`)}</select></label>`;
}

function Templates({ onChoose }) {
  const [templates, setTemplates] = useState([]);
  useEffect(() => { get("templates/index.json").then(setTemplates); }, []);
  const choose = async (template) => onChoose(await (await fetch(`templates/${template.file}`)).text(), template);
  return html`<section class="templates" aria-label="Templates"><h2>Start from a template</h2><ul>
    ${templates.map((template) => html`<li key=${template.file}><button type="button" class="template" onClick=${() => choose(template)}>
      <strong>${template.title}</strong><span class="muted small">${template.text}</span></button></li>`)}</ul></section>`;
}

const isNameValid = (rule, value) => new RegExp(`^(?:${rule.pattern})$`).test(value);

// An empty name is no mistake yet; the pipeline cannot be created until there is one.
function NameField({ id, label, value, rule, onChange }) {
  const isWrong = value !== "" && !isNameValid(rule, value);
  return html`<div class="field"><label for=${id}>${label}</label><input id=${id} required autocomplete="off" spellcheck="false"
    value=${value} aria-invalid=${isWrong} aria-describedby=${`${id}-error`} onInput=${(event) => onChange(event.target.value)} />
    <p id=${`${id}-error`} class="field-error small" aria-live="polite">${isWrong && `Expected ${rule.expected}.`}</p></div>`;
}

// An existing pipeline keeps its names: there are no rules for them.
function Fields({ draft, change, names }) {
  const name = (key, label) => html`<${NameField} id=${`new-${key}`} label=${label} value=${draft[key]} rule=${names[key]} onChange=${(value) => change({ [key]: value })} />`;
  return html`<div class="fields">
    ${names && html`${name("name", "Name")}${name("namespace", "Namespace")}`}
    <${Choice} label="Size" value=${draft.size} options=${SIZES.map((size) => [size, size])} onChange=${(size) => change({ size })} />
    <${Choice} label="Runs in" value=${draft.isolation} options=${[["shared", "the server's process"], ["process", "a process of its own"]]} onChange=${(isolation) => change({ isolation })} />
    <${Choice} label="After saving" value=${draft.desired} options=${[["running", "run"], ["paused", "stay paused"]]} onChange=${(desired) => change({ desired })} />
  </div>`;
}

function useEditor(text, onChange) {
  const holder = useRef();
  const view = useRef();
  useEffect(() => {
    view.current = createEditor(holder.current, { text, label: "Pipeline file", schema: get("schema.json"), onChange });
    return () => view.current.destroy();
  }, []);
  return [holder, view];
}

async function save(draft, isNew) {
  const { etag, name, namespace, definition, size, isolation, desired, config = {} } = draft;
  const body = { definition, size, isolation, desired, config };
  if (isNew) return request("POST", "/api/v1/pipelines", { body: { name, namespace, ...body } });
  return request("PUT", pipelineApi(draft), { body, headers: { "If-Match": etag } });
}

const LEAVE = { title: "Leave without saving?", text: "Your changes are lost.", action: "Leave without saving" };
const REPLACE = { title: "Replace your text?", text: "The template replaces the text in the editor. Ctrl+Z in the editor brings it back.", action: "Replace the text" };

function Form({ original, names, at }) {
  const isNew = Boolean(names);
  const [question, setQuestion] = useState(null);
  const ask = (about, onConfirm) => setQuestion({ ...about, onConfirm: () => { setQuestion(null); onConfirm(); } });
  const { draft, base, isRestored, forget, change, startFrom } = useDraft(
    isNew ? "new" : `${original.namespace}/${original.name}`, original, (leave) => ask(LEAVE, leave));
  const [failure, setFailure] = useState(null);
  const [isSaving, setSaving] = useState(false);
  const [preview, startPreview, stopPreview] = usePreview();
  const [holder, view] = useEditor(draft.definition, (definition) => change({ definition }));
  useEffect(() => { if (at) goTo(view.current, at); }, []);
  const result = useProblems(draft.definition);
  useEffect(() => { if (view.current && result.problems) showProblems(view.current, result.problems); }, [result]);
  const submit = async (event) => {
    event.preventDefault();
    setSaving(true);
    setFailure(null);
    try {
      const pipeline = await save(draft, isNew);
      toast(isNew ? `${pipeline.name} was created.` : `${pipeline.name} was changed.`);
      forget();
      location.hash = pipelineLink(pipeline);
    } catch (error) {
      setFailure(error.status === 412
        ? { message: "Somebody else has changed this pipeline in the meantime.", remedy: "Copy your text, reload the page, discard the restored changes and apply yours again." } : error);
      setSaving(false);
    }
  };
  const areNamesValid = !isNew || Object.entries(names).every(([key, rule]) => isNameValid(rule, draft[key]));
  const replace = (next) => { replaceText(view.current, next.definition); startFrom(next); };
  const useTemplate = (definition, template) => {
    const apply = () => replace({ ...draft, definition, name: draft.name === base.name ? template.name : draft.name });
    if (draft.definition === base.definition) apply(); else ask(REPLACE, apply);
  };
  return html`<form class="definition" onSubmit=${submit}>
    ${isRestored && html`<p class="notice" role="status">Your unsaved changes were restored. <button type="button" class="link" onClick=${() => replace(original)}>Discard them</button></p>`}
    ${isNew && html`<${Templates} onChoose=${useTemplate} />`}
    <${Fields} draft=${draft} change=${change} names=${names} />
    <div class="editing"><div class="card editor-card" ref=${holder} /><${Verdict} text=${draft.definition} result=${result} onGoTo=${(problem) => goTo(view.current, problem)} /></div>
    ${failure && html`<${ErrorBox} error=${failure} title="The pipeline was not saved" />`}
    <div class="form-actions"><span class="muted small">Ctrl+Space suggests fields and values. Tab leaves the editor.</span>
      <${Button} icon="play" disabled=${!draft.definition.trim() || isActive(preview)} onClick=${() => startPreview("/api/v1/preview", { definition: draft.definition, config: draft.config ?? {} })}>Preview<//>
      <a class="button" href=${isNew ? "#/" : pipelineLink(original)}>Cancel</a>
      <button type="submit" class="button primary" disabled=${isSaving || !areNamesValid || !draft.definition.trim() || result.problems?.length > 0}>${isNew ? "Create pipeline" : "Save and restart"}</button></div>
    ${preview && html`<${PreviewCard} preview=${preview} onStop=${stopPreview} />`}
  </form>
  ${question && html`<${ConfirmDialog} ...${question} onClose=${() => setQuestion(null)} />`}`;
}

// `names`: the rules for the names of a new pipeline; `at`: the place in the file that is shown first
export function DefinitionScreen({ pipeline, names, at }) {
  const [original, setOriginal] = useState(pipeline ? null : NEW);
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    document.title = `${pipeline ? `Edit ${pipeline.name}` : "New pipeline"} – Streamling`;
    if (pipeline) get(pipelineApi(pipeline)).then(setOriginal, setFailure);
  }, []);
  if (failure) return html`<${ErrorBox} error=${failure} title="The pipeline cannot be read" />`;
  if (!original) return html`<p class="loading">Loading …</p>`;
  return html`<div class="title-row"><div>${pipeline && html`<nav class="crumbs" aria-label="Path"><a href="#/">Pipelines</a> / ${pipeline.namespace} / <a href=${pipelineLink(pipeline)}>${pipeline.name}</a></nav>`}
    <h1>${pipeline ? `Edit ${pipeline.name}` : "New pipeline"}</h1></div></div><${Form} original=${original} names=${names} at=${at} />`;
}
