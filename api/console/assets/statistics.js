// Summaries of lists of numbers.

/** The mean; NaN of an empty list. */
export const mean = (values) => values.reduce((total, v) => total + v, 0) / values.length;

/** The sample standard deviation (of n-1), as trainers compute it; NaN for fewer than two values. */
export function deviation(values) {
  if (values.length < 2) return NaN;
  const center = mean(values);
  return Math.sqrt(values.reduce((total, v) => total + (v - center) ** 2, 0) / (values.length - 1));
}

/** A quantile of a sorted list, interpolated; NaN of an empty one. */
export function quantile(sorted, q) {
  const at = q * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.ceil(at);
  return sorted.length === 0 ? NaN : sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

export const sorted = (values) => Float64Array.from(values).sort();

/** How many values in [0,1] fall into each of n equal bins. */
export function histogram(values, n) {
  const bins = new Array(n).fill(0);
  for (const v of values) bins[Math.min(n - 1, Math.max(0, Math.floor(v * n)))]++;
  return bins;
}

/** Groups entries by a key: a Map from each key to its entries, in the order of the first ones. */
export function groupBy(entries, key) {
  const groups = new Map();
  for (const e of entries) {
    const k = key(e);
    if (groups.has(k)) groups.get(k).push(e);
    else groups.set(k, [e]);
  }
  return groups;
}
