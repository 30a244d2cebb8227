// All pipelines of the server, one page of the list after the other, so that no request is large. With more pages, each
// page is read less often; the number of requests per second stays the same.
import { get } from "../api.js";

const PAGE = 100;
const HISTORY = 60;
const SECONDS = { first: 0.02, next: 1, single: 2 };

export class FleetStore {
  constructor(onChange) {
    this.pipelines = new Map();
    this.history = new Map();
    this.error = null;
    // when the whole list was read last, in milliseconds
    this.read = 0;
    this.isComplete = false;
    this.onChange = onChange;
  }

  start() {
    this.stopping = new AbortController();
    this.round(this.stopping.signal);
  }

  stop() {
    this.stopping.abort();
    clearTimeout(this.timer);
  }

  // Reads everything again soon, after a change by the user.
  refresh() {
    this.stop();
    this.start();
  }

  async round(signal, cursor = null, seen = new Set()) {
    let next = null;
    try {
      const page = await get(`/api/v1/pipelines?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, signal);
      if (signal.aborted) return;
      next = page.next;
      page.items.forEach((item) => { this.put(item); seen.add(keyOf(item)); });
      if (!next) this.finish(seen);
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
    }
    this.onChange();
    const pause = next || cursor ? (this.isComplete ? SECONDS.next : SECONDS.first) : SECONDS.single;
    this.timer = setTimeout(() => this.round(signal, next, next ? seen : new Set()), pause * 1000);
  }

  put(item) {
    const key = keyOf(item);
    this.pipelines.set(key, item);
    const values = this.history.get(key) ?? [];
    values.push(item.costs?.rows_per_second ?? 0);
    this.history.set(key, values.slice(-HISTORY));
  }

  finish(seen) {
    for (const key of this.pipelines.keys()) {
      if (!seen.has(key)) { this.pipelines.delete(key); this.history.delete(key); }
    }
    this.isComplete = true;
    this.read = Date.now();
  }
}

export const keyOf = ({ namespace, name }) => `${namespace}/${name}`;
