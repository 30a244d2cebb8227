// CodeMirror in a shadow root: there it uses adopted style sheets, which the content security policy allows, instead of
// <style> elements, which it does not.
import * as cm from "../../vendor/codemirror.js";
import { complete } from "./completion.js";

const LANGUAGES = { yaml: cm.yaml, sql: () => cm.sql({ upperCaseKeywords: true }), javascript: () => cm.javascript({ typescript: true }) };

const colors = cm.HighlightStyle.define([
  { tag: [cm.tags.propertyName, cm.tags.definition(cm.tags.propertyName)], color: "var(--code-key)" },
  { tag: [cm.tags.keyword, cm.tags.operatorKeyword, cm.tags.typeName], color: "var(--code-keyword)" },
  { tag: [cm.tags.string, cm.tags.special(cm.tags.string)], color: "var(--code-text)" },
  { tag: [cm.tags.number, cm.tags.bool, cm.tags.null], color: "var(--code-number)" },
  { tag: [cm.tags.comment], color: "var(--muted)", fontStyle: "italic" },
]);

const theme = cm.EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", lineHeight: "1.55", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none", paddingRight: "4px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground":
    { backgroundColor: "var(--selection)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  // the library underlines with an image in a data: address, which the policy does not allow
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px", boxShadow: "var(--shadow)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-tooltip .cm-completionInfo": { maxWidth: "320px", padding: "6px 10px" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
});

const common = (language, label) => [
  theme, cm.syntaxHighlighting(colors), LANGUAGES[language](), cm.lineNumbers(),
  // focusable by itself; the attribute says so to tools that check accessibility
  cm.EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
];

function mount(holder, doc, extensions) {
  const host = document.createElement("div");
  host.className = "editor-host";
  holder.replaceChildren(host);
  const root = host.attachShadow({ mode: "open" });
  return new cm.EditorView({ state: cm.EditorState.create({ doc, extensions }), root, parent: root });
}

// `at`: the place that is shown first
export function createViewer(holder, { text, language, label, at }) {
  const view = mount(holder, text, [common(language, label), cm.EditorState.readOnly.of(true), cm.EditorView.lineWrapping]);
  if (at) goTo(view, at);
  return view;
}

// `schema`: a promise of the JSON Schema, which arrives while the user looks at the page
export function createEditor(holder, { text, label, schema, onChange }) {
  const suggest = async ({ state, pos, explicit }) => complete(state.doc.toString(), pos, await schema, explicit);
  return mount(holder, text, [
    common("yaml", label), cm.history(), cm.drawSelection(), cm.indentOnInput(), cm.bracketMatching(), cm.highlightActiveLine(),
    cm.highlightActiveLineGutter(), cm.indentUnit.of("  "), cm.autocompletion({ override: [suggest], icons: false }),
    // Tab accepts a suggestion; without one it leaves the editor, so that the keyboard is not trapped
    cm.keymap.of([{ key: "Tab", run: cm.acceptCompletion }, ...cm.completionKeymap, ...cm.defaultKeymap, ...cm.historyKeymap, ...cm.lintKeymap]),
    cm.EditorView.updateListener.of((update) => { if (update.docChanged) onChange(update.state.doc.toString()); }),
  ]);
}

export function replaceText(view, text) {
  // an event of its own, so that undo brings back all of the text that was typed just before
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, userEvent: "input.replace" });
}

const offsetOf = (doc, { line, column }) => {
  const found = doc.line(Math.min(Math.max(line, 1), doc.lines));
  return Math.min(found.from + Math.max(column - 1, 0), found.to);
};

export function showProblems(view, problems) {
  const { doc } = view.state;
  const diagnostics = problems.filter(({ line }) => line > 0).map((problem) => {
    const from = offsetOf(doc, problem);
    const line = doc.lineAt(from);
    const [word] = /^[^\s:,]*/.exec(doc.sliceString(from, line.to));
    return { from: word ? from : line.from, to: word ? from + word.length : line.to, severity: "error", message: problem.message };
  });
  view.dispatch(cm.setDiagnostics(view.state, diagnostics));
}

export function goTo(view, problem) {
  view.dispatch({ selection: { anchor: offsetOf(view.state.doc, problem) }, scrollIntoView: true });
  view.focus();
}
