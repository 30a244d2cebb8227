// What has been changed in the editor and not saved. It is kept in the tab, so that neither a reload nor an expired token
// loses it, until it is saved or given up.
import { guardLeaving } from "../router.js";
import { useLayoutEffect, useRef, useState } from "../ui.js";

const PREFIX = "streamling.draft ";
const FIELDS = ["name", "namespace", "definition", "size", "isolation", "desired"];

const differs = (one, other) => FIELDS.some((field) => one[field] !== other[field]);

export function forgetDrafts() {
  Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX)).forEach((key) => sessionStorage.removeItem(key));
}

// `onLeave(leave)` is called when the user is about to leave changes behind; `leave` does it.
export function useDraft(id, original, onLeave) {
  const key = PREFIX + id;
  const [kept, setKept] = useState(() => JSON.parse(sessionStorage.getItem(key)));
  // what can be had again: the saved pipeline, or a template
  const [base, setBase] = useState(original);
  // a kept draft has the version that it was made from, so that it cannot overwrite a later one
  const [draft, setDraft] = useState(kept ?? original);
  const isChanged = differs(draft, base);
  const stopGuarding = useRef(() => {});
  const forget = () => { stopGuarding.current(); sessionStorage.removeItem(key); };
  // before the next event: the page may be left at once
  useLayoutEffect(() => {
    if (isChanged) sessionStorage.setItem(key, JSON.stringify(draft));
    else forget();
  }, [draft, isChanged]);
  useLayoutEffect(() => {
    if (!isChanged) return undefined;
    const ask = (event) => event.preventDefault();
    const leaveGuard = guardLeaving((leave) => onLeave(() => { forget(); leave(); }));
    addEventListener("beforeunload", ask);
    stopGuarding.current = () => { leaveGuard(); removeEventListener("beforeunload", ask); };
    return () => stopGuarding.current();
  }, [isChanged]);
  return {
    draft, base, isRestored: kept !== null, forget,
    change: (part) => setDraft((known) => ({ ...known, ...part })),
    startFrom: (next) => { forget(); setKept(null); setBase(next); setDraft(next); },
  };
}
