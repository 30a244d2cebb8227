// Names of the stored secrets. Their values are written here and never shown again.
import { get, request } from "../api.js";
import { ConfirmDialog } from "../dialogs.js";
import { usePolling } from "../hooks.js";
import { Button, Empty, ErrorBox, html, toast, toastError, useEffect, useState } from "../ui.js";

const pathOf = (name) => `/api/v1/secrets/${encodeURIComponent(name)}`;

function SecretForm({ names, onStored }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await request("PUT", pathOf(name.trim()), { body: { value } });
      toast(`The secret ${name.trim()} was stored. Pipelines use it from their next start on.`);
      setName("");
      setValue("");
      onStored();
    } catch (error) {
      toastError(error);
    }
  };
  return html`<form class="card secret-form" onSubmit=${submit}>
    <label class="field">Name<input autocomplete="off" spellcheck="false" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <label class="field">Value<input type="password" autocomplete="new-password" value=${value} onInput=${(event) => setValue(event.target.value)} /></label>
    <button type="submit" class="button primary" disabled=${!name.trim() || !value}>${names.includes(name.trim()) ? "Replace secret" : "Store secret"}</button>
  </form>`;
}

export function SecretsScreen() {
  const { data, error, reload } = usePolling((signal) => get("/api/v1/secrets", signal), 30, "secrets");
  const [asked, setAsked] = useState(null);
  useEffect(() => { document.title = "Secrets – Streamling"; }, []);
  const names = data?.items ?? [];
  const remove = async () => {
    setAsked(null);
    try {
      await request("DELETE", pathOf(asked));
      toast(`The secret ${asked} was deleted.`);
      reload();
    } catch (failure) {
      toastError(failure);
    }
  };
  return html`<div class="title-row"><h1>Secrets</h1></div>
    <p class="muted page-note">Pipeline files name a secret as <code>${"${secret:NAME}"}</code>. Values are encrypted when they are stored, and never shown again.</p>
    ${error && html`<${ErrorBox} error=${error} title="The secrets cannot be listed" />`}
    ${data && html`<${SecretForm} names=${names} onStored=${reload} />`}
    ${data && names.length === 0 && html`<${Empty} title="No secrets are stored"><p>Store the first one above.</p><//>`}
    ${names.length > 0 && html`<section class="card"><table class="data"><thead><tr><th>Name</th><th><span class="hidden">Actions</span></th></tr></thead>
      <tbody>${names.map((name) => html`<tr key=${name}><th scope="row" class="code">${name}</th>
        <td class="number"><${Button} icon="trash" kind="quiet" label="Delete ${name}" onClick=${() => setAsked(name)} /></td></tr>`)}</tbody></table></section>`}
    ${asked && html`<${ConfirmDialog} title="Delete the secret ${asked}?" action="Delete secret" onConfirm=${remove} onClose=${() => setAsked(null)}
      text="Pipelines that name it continue until their next start, which fails." />`}`;
}
