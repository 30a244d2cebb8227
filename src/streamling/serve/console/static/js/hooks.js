// State that follows the server. Nothing is requested while the tab is hidden.
import { followEvents } from "./api.js";
import { useEffect, useRef, useState } from "./ui.js";

export function useVisible() {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const update = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  return visible;
}

// Calls `load(signal)` now and then every `seconds`; never two at a time. `key` restarts it.
export function usePolling(load, seconds, key) {
  const visible = useVisible();
  const [result, setResult] = useState({ data: undefined, error: null });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => setResult({ data: undefined, error: null }), [key]);
  useEffect(() => {
    if (!visible || key === null) return undefined;
    const stop = new AbortController();
    let timer;
    const tick = async () => {
      try {
        const data = await latest.current(stop.signal);
        if (!stop.signal.aborted) setResult({ data, error: null });
      } catch (error) {
        if (!stop.signal.aborted) setResult(({ data }) => ({ data, error }));
      }
      if (!stop.signal.aborted) timer = setTimeout(tick, seconds * 1000);
    };
    tick();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [visible, seconds, key, round]);
  return { ...result, reload: () => setRound((each) => each + 1) };
}

// Server-sent events of `path`; null closes the stream.
export function useEvents(path, onEvent) {
  const visible = useVisible();
  const [status, setStatus] = useState({ state: "connecting" });
  const latest = useRef(onEvent);
  latest.current = onEvent;
  useEffect(() => {
    setStatus({ state: path === null ? "closed" : "connecting" });
    if (!visible || path === null) return undefined;
    const stop = new AbortController();
    followEvents(path, (name, data) => latest.current(name, data), setStatus, stop.signal);
    return () => stop.abort();
  }, [visible, path]);
  return status;
}

export function useMedia(query) {
  const [matches, setMatches] = useState(matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const update = () => setMatches(media.matches);
    media.addEventListener("change", update);
    return () => media.removeEventListener("change", update);
  }, [query]);
  return matches;
}

// The current time in milliseconds, again every `seconds`.
export function useNow(seconds) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

// Width of an element, as it changes.
export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return width;
}
