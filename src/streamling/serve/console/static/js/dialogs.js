// Questions in front of the page. <dialog> keeps the focus inside and closes with Escape.
import { Button, html, useEffect, useRef, useState } from "./ui.js";

export function Dialog({ title, onClose, onSubmit, children }) {
  const element = useRef();
  useEffect(() => element.current.showModal(), []);
  const submit = (event) => { event.preventDefault(); onSubmit(); };
  return html`<dialog ref=${element} class="dialog" aria-labelledby="dialog-title" onClose=${onClose}
    onClick=${(event) => event.target === element.current && element.current.close()}>
    <form onSubmit=${submit}><h2 id="dialog-title">${title}</h2>${children}</form>
  </dialog>`;
}

export function DeleteDialog({ pipeline, onDelete, onClose }) {
  const [typed, setTyped] = useState("");
  const [state, setState] = useState("keep");
  const isSure = typed === pipeline.name;
  return html`<${Dialog} title="Delete ${pipeline.namespace}/${pipeline.name}?" onClose=${onClose}
    onSubmit=${() => isSure && onDelete(state)}>
    <p>The pipeline writes what it has read, then it is removed. Tables and topics that it wrote are not changed.</p>
    <fieldset><legend>Stored positions</legend>
      <label><input type="radio" name="state" checked=${state === "keep"} onChange=${() => setState("keep")} />
        Keep them: a pipeline with the same name continues from there</label>
      <label><input type="radio" name="state" checked=${state === "delete"} onChange=${() => setState("delete")} />
        Delete them: a pipeline with the same name starts from the beginning</label>
    </fieldset>
    <label class="field"><span>Type <strong>${pipeline.name}</strong> to confirm</span>
      <input autofocus autocomplete="off" spellcheck="false" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
    </label>
    <div class="dialog-actions">
      <${Button} onClick=${onClose}>Cancel<//>
      <button type="submit" class="button danger" disabled=${!isSure}>Delete pipeline</button>
    </div>
  <//>`;
}

export function ConfirmDialog({ title, text, action, onConfirm, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose} onSubmit=${onConfirm}>
    <p>${text}</p>
    <div class="dialog-actions">
      <${Button} onClick=${onClose}>Cancel<//>
      <button type="submit" class="button primary">${action}</button>
    </div>
  <//>`;
}

export function TokenScreen({ wasWrong, onToken }) {
  const [value, setValue] = useState("");
  const input = useRef();
  useEffect(() => input.current.focus(), []);
  return html`<main class="token-screen"><form class="card" onSubmit=${(event) => { event.preventDefault(); onToken(value.trim()); }}>
    <h1>Enter your token</h1>
    <p>This server accepts requests with a token only. Your administrator has configured it under
      ${" "}<code>serve.tokens</code> or <code>admin_api_token</code>. The token is kept in this browser tab until you close it.</p>
    <label class="field">Token
      <input ref=${input} type="password" autocomplete="off" value=${value} aria-describedby="token-error"
        onInput=${(event) => setValue(event.target.value)} /></label>
    <p id="token-error" class="field-error" role="alert">${wasWrong ? "The server did not accept this token." : ""}</p>
    <button type="submit" class="button primary" disabled=${!value.trim()}>Continue</button>
  </form></main>`;
}
