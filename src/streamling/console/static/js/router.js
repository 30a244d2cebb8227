// Screens are addressed by the fragment, so that every path of the server is the same page.
import { useEffect, useState } from "./ui.js";

const ROUTES = [
  [/^\/?$/, "home", []],
  [/^\/new$/, "new", []],
  [/^\/pipelines\/([^/]+)\/([^/]+)$/, "pipeline", ["namespace", "name"]],
  [/^\/pipelines\/([^/]+)\/([^/]+)\/edit$/, "edit", ["namespace", "name"]],
];

function current() {
  const path = location.hash.slice(1).split("?")[0];
  for (const [pattern, screen, names] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { screen, ...Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(match[index + 1])])) };
  }
  return { screen: "unknown" };
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const update = () => { setRoute(current()); scrollTo(0, 0); };
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

const parts = (namespace, name) => `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export const pipelineLink = ({ namespace, name }) => `#/pipelines/${parts(namespace, name)}`;
export const editLink = (pipeline) => `${pipelineLink(pipeline)}/edit`;
export const pipelineApi = ({ namespace, name }) => `/api/v1/pipelines/${parts(namespace, name)}`;
