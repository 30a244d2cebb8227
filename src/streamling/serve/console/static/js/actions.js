// What an operator can do with a pipeline, and what is asked first.
import { request } from "./api.js";
import { ConfirmDialog, DeleteDialog } from "./dialogs.js";
import { pipelineApi } from "./router.js";
import { html, toast, toastError, useState } from "./ui.js";

const DONE = { pause: "pauses", resume: "resumes", restart: "restarts", checkpoint: "has stored its position" };
const WAITING = new Set(["paused", "pausing"]);

export const isPaused = (pipeline) => pipeline.desired === "paused" || WAITING.has(pipeline.state);

// Returns `[act, dialog]`: `act(name, pipeline)` starts an action, `dialog` is shown somewhere on the page.
export function useActions({ onDone = () => {}, onDeleted = () => {} } = {}) {
  const [asked, setAsked] = useState(null);
  const send = async (method, path, message, then) => {
    setAsked(null);
    try {
      await request(method, path);
      toast(message);
      then();
    } catch (error) {
      toastError(error);
    }
  };
  const post = (action, pipeline) =>
    send("POST", `${pipeline.base ?? pipelineApi(pipeline)}/${action}`, `${pipeline.name} ${DONE[action]}.`, onDone);
  const act = (action, pipeline) =>
    action === "restart" || action === "delete" ? setAsked({ action, pipeline }) : post(action, pipeline);
  const close = () => setAsked(null);
  let dialog = null;
  if (asked?.action === "delete") {
    const { pipeline } = asked;
    const remove = (state) =>
      send("DELETE", `${pipelineApi(pipeline)}?state=${state}`, `${pipeline.name} is being deleted.`, onDeleted);
    dialog = html`<${DeleteDialog} pipeline=${pipeline} onDelete=${remove} onClose=${close} />`;
  } else if (asked) {
    dialog = html`<${ConfirmDialog} title="Restart ${asked.pipeline.name}?" action="Restart pipeline" onClose=${close}
      text="The pipeline writes what it has read, stores its position and starts again from there. No row is lost."
      onConfirm=${() => post("restart", asked.pipeline)} />`;
  }
  return [act, dialog];
}
