// Which pipelines the list shows, and in which order. Pure functions.
// A pipeline that runs, but has failed a moment ago.
export const isUnstable = ({ state, last_error: failure }) => state === "running" && Boolean(failure);

export const shownState = (pipeline) => (isUnstable(pipeline) ? "running, unstable" : pipeline.state);

export const GROUPS = {
  all: ["All", () => true],
  running: ["Running", ({ state }) => state === "running"],
  failed: ["Failed", (pipeline) => pipeline.state === "failed" || pipeline.state === "restarting" || isUnstable(pipeline)],
  paused: ["Paused", ({ state }) => state === "paused" || state === "pausing"],
  other: ["Other", ({ state }) => !["running", "failed", "restarting", "paused", "pausing"].includes(state)],
};

const SEVERITY = ["failed", "restarting", "pending", "starting", "draining", "pausing", "running", "paused", "finished"];
const KEYS = {
  name: (pipeline) => `${pipeline.namespace}/${pipeline.name}`,
  state: (pipeline) => SEVERITY.indexOf(pipeline.state) - (isUnstable(pipeline) ? 0.5 : 0),
  rate: (pipeline) => -(pipeline.costs?.rows_per_second ?? -1),
  lag: (pipeline) => -(pipeline.lag ?? -1),
  cpu: (pipeline) => -(pipeline.costs?.cpu_percent ?? -1),
};

export function select(pipelines, { text, group, namespace, sort }) {
  const wanted = text.trim().toLowerCase();
  const isInGroup = GROUPS[group][1];
  const found = pipelines.filter((pipeline) =>
    isInGroup(pipeline)
    && (!namespace || pipeline.namespace === namespace)
    && (!wanted || `${pipeline.namespace}/${pipeline.name}`.toLowerCase().includes(wanted)));
  const key = KEYS[sort];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return found.sort((a, b) => compare(key(a), key(b)) || compare(KEYS.name(a), KEYS.name(b)));
}

export function countByGroup(pipelines) {
  return Object.fromEntries(Object.entries(GROUPS).map(([group, [, contains]]) =>
    [group, pipelines.filter((pipeline) => contains(pipeline)).length]));
}
