// Numbers, times and durations as people read them.
const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]];

export function count(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of UNITS) {
    if (Math.abs(value) >= size) {
      const scaled = value / (unit === "k" ? 1e3 : size);
      return `${scaled.toFixed(scaled >= 100 ? 0 : 1)} ${unit}`;
    }
  }
  return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value > 0 && value < 10 ? value.toFixed(1) : count(value)}/s`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export const milliseconds = (value) => (value === null || value === undefined ? "–" : duration(value / 1000));

export const since = (iso) => (iso ? duration(Math.max(0, (Date.now() - Date.parse(iso)) / 1000)) : "–");

export const until = (iso) => duration(Math.max(0, (Date.parse(iso) - Date.now()) / 1000));

export function clock(iso) {
  if (!iso) return "–";
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? String(iso) : time.toLocaleTimeString("en-GB");
}

export function dateAndTime(iso) {
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? String(iso) : `${time.toLocaleDateString("en-CA")} ${time.toLocaleTimeString("en-GB")}`;
}

export const megabytes = (value) =>
  value === null || value === undefined ? "–" : value >= 1024 ? `${(value / 1024).toFixed(1)} GB` : `${Math.round(value)} MB`;

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);

export const cores = (percent) => (percent === null || percent === undefined ? "–" : `${percent.toFixed(percent < 9.95 ? 1 : 0)} %`);

// A value of a row as one line of text.
export function cell(value) {
  if (value === null || value === undefined) return "null";
  if (JSON.isRawJSON?.(value)) return value.rawJSON;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
