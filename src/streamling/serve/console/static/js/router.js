// Screens are addressed by the fragment, so that every path of the server is the same page.
import { useEffect, useState } from "./ui.js";

const ROUTES = [
  [/^\/?$/, "home", []],
  [/^\/new$/, "new", []],
  [/^\/secrets$/, "secrets", []],
  [/^\/audit$/, "audit", []],
  [/^\/pipelines\/([^/]+)\/([^/]+)$/, "pipeline", ["namespace", "name"]],
  [/^\/pipelines\/([^/]+)\/([^/]+)\/edit$/, "edit", ["namespace", "name"]],
];

function current() {
  const [path, query] = location.hash.slice(1).split("?");
  const at = placeIn(new URLSearchParams(query));
  for (const [pattern, screen, names] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { screen, at, ...Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(match[index + 1])])) };
  }
  return { screen: "unknown" };
}

// The place in a pipeline file that an address names.
function placeIn(query) {
  const [line, column] = [Number(query.get("line")), Number(query.get("column") ?? 1)];
  return line > 0 ? { line, column: column || 1 } : null;
}

// The address that is shown. Entries of the history are numbered, so that leaving them in either direction can be undone.
let here = { hash: location.hash, number: history.state?.number ?? 0 };
history.replaceState({ number: here.number }, "");
// asks the user before the screen is left; null if there is nothing to lose
let question = null;

// Calls `ask(leave)` instead of leaving the screen, until the returned function is called; `leave` leaves it.
export function guardLeaving(ask) {
  question = ask;
  return () => { if (question === ask) question = null; };
}

// Calls `leave`, which makes the screen disappear, once the user agrees.
export function askToLeave(leave) {
  if (question) question(() => { question = null; leave(); });
  else leave();
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const show = () => {
      here = { hash: location.hash, number: history.state?.number ?? here.number + 1 };
      history.replaceState({ number: here.number }, "");
      setRoute(current());
      scrollTo(0, 0);
    };
    const update = () => {
      const wanted = location.hash;
      if (wanted === here.hash) return;
      if (!question) return show();
      const steps = history.state ? history.state.number - here.number : null;
      history.go(-(steps ?? 1));
      askToLeave(() => (steps === null ? location.assign(wanted) : history.go(steps)));
    };
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

const parts = (namespace, name) => `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export const pipelineLink = ({ namespace, name }) => `#/pipelines/${parts(namespace, name)}`;
export const editLink = (pipeline) => `${pipelineLink(pipeline)}/edit`;
export const pipelineApi = ({ namespace, name }) => `/api/v1/pipelines/${parts(namespace, name)}`;
