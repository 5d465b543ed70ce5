// The text format of Prometheus, as far as the console needs it.

/** Parses an exposition to a map from a name to a list of {labels, value}. */
export function parse(text) {
  const metrics = new Map();
  for (const line of text.split('\n')) {
    const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)/.exec(line);
    if (!match) continue;
    const [, name, labels, value] = match;
    if (!metrics.has(name)) metrics.set(name, []);
    metrics.get(name).push({ labels: parseLabels(labels), value: number(value) });
  }
  return metrics;
}

function parseLabels(text = '') {
  const labels = {};
  for (const [, name, value] of text.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
  }
  return labels;
}

const number = (text) => (text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text));

const matches = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);

/** The sum of the series of a metric with given labels; undefined without any. */
export function sum(metrics, name, labels = {}) {
  const series = (metrics.get(name) ?? []).filter((s) => matches(s.labels, labels));
  return series.length === 0 ? undefined : series.reduce((total, s) => total + s.value, 0);
}

/** A quantile of a histogram between two expositions, interpolated within its bucket; undefined without observations. */
export function quantile(before, after, name, q, labels = {}) {
  const buckets = new Map();
  for (const [metrics, sign] of [[after, 1], [before, -1]]) {
    for (const s of metrics?.get(`${name}_bucket`) ?? []) {
      if (matches(s.labels, labels)) buckets.set(number(s.labels.le), (buckets.get(number(s.labels.le)) ?? 0) + sign * s.value);
    }
  }
  const bounds = [...buckets.keys()].sort((a, b) => a - b);
  const total = buckets.get(Infinity) ?? 0;
  if (total <= 0) return undefined;
  let [below, lower] = [0, 0];
  for (const bound of bounds) {
    const n = buckets.get(bound);
    if (n >= q * total) {
      if (bound === Infinity) return lower;
      return lower + (bound - lower) * ((q * total - below) / (n - below || 1));
    }
    [below, lower] = [n, bound];
  }
  return lower;
}
