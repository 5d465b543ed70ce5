// Numbers and times as text.

/** A number with a fixed count of decimals. */
export const decimals = (value, count = 3) => (Number.isFinite(value) ? value.toFixed(count) : '–');

/** A count with separators of thousands. */
export const count = (value) => (Number.isFinite(value) ? Math.round(value).toLocaleString('en-US') : '–');

/** A share as a percentage. */
export const percent = (share, digits = 0) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : '–');

/** "1 label", "2 labels". */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// toPrecision writes an exponent from 1000 on.
const threeDigits = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));

/** A number of bytes with a unit. */
export function bytes(value) {
  if (!Number.isFinite(value)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : threeDigits(value)} ${units[unit]}`;
}

/** A number of seconds with a unit, such as "350 ms" or "2 h 5 min". */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds === 0) return '0 s';
  if (seconds < 1) return `${seconds < 0.01 ? (seconds * 1000).toPrecision(2) : threeDigits(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} d`;
}

/** A time, given in seconds since 1970 or as an RFC 3339 text, in the zone of the browser. */
export function time(value) {
  const date = typeof value === 'number' ? new Date(value * 1000) : new Date(value);
  if (!value || Number.isNaN(date.getTime())) return '–';
  return date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

/** How long ago a time was. */
export function ago(value) {
  const date = typeof value === 'number' ? new Date(value * 1000) : new Date(value);
  const seconds = (Date.now() - date.getTime()) / 1000;
  return seconds < 1 ? 'just now' : `${duration(Math.floor(seconds))} ago`;
}
