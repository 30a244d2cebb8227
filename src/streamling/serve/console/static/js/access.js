// What the holder of the token may do. The server checks it again; the console only leaves out what would be refused.
import { get } from "./api.js";
import { useEffect, useState } from "./ui.js";

const ROLES = ["viewer", "operator", "admin"];
const UNKNOWN = { may: () => true, isGlobal: true };

let known = UNKNOWN;
const listeners = new Set();

export async function readAccess() {
  try {
    const { role, namespaces } = await get("/api/v1/access");
    known = { may: (wanted) => ROLES.indexOf(role) >= ROLES.indexOf(wanted), isGlobal: namespaces.includes("*") };
  } catch {
    known = UNKNOWN;
  }
  listeners.forEach((listener) => listener(known));
}

export function useAccess() {
  const [access, setAccess] = useState(known);
  useEffect(() => {
    listeners.add(setAccess);
    setAccess(known); // it may have become known since this component was drawn
    return () => listeners.delete(setAccess);
  }, []);
  return access;
}
