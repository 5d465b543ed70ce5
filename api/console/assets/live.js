// The page Live: the responses as they are scored, and what they add up to.
import { text } from './api.js';
import { lineChart } from './charts.js';
import { add, announce, button, el, facts, field, fill, message, svg, table } from './elements.js';
import { count, decimals, duration, percent, plural } from './format.js';
import { parse, quantile as metricQuantile, sum } from './prometheus.js';
import { verdict } from './result.js';
import { ScoredLog } from './scoredlog.js';
import { showResponse } from './scoredresponse.js';
import { groupBy, histogram, mean, quantile, sorted } from './statistics.js';

const interval = 500; // milliseconds between two updates
const metricsInterval = 5000;
const shownRows = 50;
const points = 60; // of a chart over time
const bins = 20;
const comparedVersions = 4;
const lengths = [0, 200, 500, 1000, 2000, 5000, Infinity]; // characters

export function show(view, page) {
  const live = new Live(page);
  add(view, live.elements());
  live.start();
}

class Live {
  constructor(page) {
    this.page = page;
    this.quantiles = lineChart({ title: 'Reward over time', names: ['10 % quantile', 'median', '90 % quantile'], time: true, range: [0, 1] });
    this.rates = lineChart({ title: 'Responses and violations per minute', names: ['responses', 'violations'], time: true });
    this.parts = Object.fromEntries(['state', 'summary', 'machine', 'histogram', 'versions', 'lengths'].map((name) => [name, el('div')]));
    this.version = el('select', { on: { change: () => this.draw() } }, el('option', { value: '' }, 'all versions'));
    this.window = el('select', { on: { change: () => this.draw() } },
      [[1, 'last minute'], [5, 'last 5 minutes'], [30, 'last 30 minutes'], [0, 'all that the service holds']].map(([minutes, label]) => el('option', { value: minutes, selected: minutes === 5 }, label)));
    this.only = el('input', { type: 'checkbox', id: 'only-violations', on: { change: () => this.draw() } });
    this.pause = button('Pause', () => this.togglePause(), { id: 'pause', aria: { pressed: 'false' } });
    this.table = table(`The last ${shownRows} responses`, ['Response', 'Time', 'Verdict', 'Reward', 'Witness', 'Violation', 'Threshold', 'Utterances', 'Characters', 'Step', 'Received by', 'Model version'], []);
    this.rows = this.table.querySelector('tbody');
    this.rowOf = new Map(); // rows by sequence, so that the focus stays where it is
  }

  elements() {
    return [
      el('p', {}, 'Responses as clients have them scored, with their rewards on the scale compliance: 0.5 is the threshold, 1 is compliant. The service holds the last 5,000 in memory.'),
      el('div', { class: 'columns' }, field('Model version', this.version), field('Time', this.window),
        el('p', { class: 'field' }, el('label', {}, this.only, ' Only violations'))),
      el('div', { class: 'actions' }, this.pause), this.parts.state, this.parts.summary,
      el('div', { class: 'columns' }, this.quantiles.element, this.rates.element),
      this.parts.histogram, this.parts.versions, this.parts.lengths,
      el('h2', {}, 'Service'), this.parts.machine,
      el('h2', {}, 'Responses'), this.table,
    ];
  }

  start() {
    this.log = new ScoredLog(() => this.draw(), interval, this.page.signal);
    this.readMetrics();
    const timer = setInterval(() => {
      this.readMetrics();
      if (!this.log.paused) this.draw(); // the windows of time move without new responses too
    }, metricsInterval);
    this.page.signal.addEventListener('abort', () => clearInterval(timer));
    this.showState();
  }

  togglePause() {
    this.log.paused = !this.log.paused;
    this.pause.textContent = this.log.paused ? 'Continue' : 'Pause';
    this.pause.setAttribute('aria-pressed', String(this.log.paused));
    announce(this.log.paused ? 'Paused. New responses are collected.' : 'Continued.');
    this.showState();
  }

  draw() {
    this.showState();
    this.showVersions();
    const minutes = Number(this.window.value);
    const since = minutes > 0 ? Date.now() - minutes * 60_000 : 0;
    const chosen = this.log.responses.filter((r) => r.at >= since && (!this.version.value || r.model === this.version.value) && (!this.only.checked || !r.compliant));
    const scored = chosen.filter((r) => !r.empty);
    this.showSummary(chosen, scored, since);
    this.drawTime(scored, since);
    this.showHistogram(scored);
    this.showByVersion(scored);
    this.showByLength(scored);
    this.showRows(chosen);
  }

  showState() {
    const { connection, counts, known, paused, responses } = this.log;
    const lost = !['connecting', 'open'].includes(connection);
    fill(this.parts.state,
      lost && message('warning', connection === 'lost' ? 'The connection is lost. The page reconnects by itself.' : connection),
      el('p', { class: 'hint' }, paused ? 'Paused; new responses are collected. ' : '',
        known ? `${plural(responses.length, 'response')} held, of ${count(counts.scored)} that the service has scored since it started.` : 'No response has been scored since the service started, or the first ones are on their way.',
        counts.skipped > 0 ? ` A sample: ${count(counts.skipped)} were skipped, so that recording them delays no request.` : ''));
  }

  showVersions() {
    const versions = [...new Set(this.log.responses.map((r) => r.model))];
    const listed = [...this.version.options].slice(1).map((o) => o.value);
    for (const version of versions) if (!listed.includes(version)) this.version.append(el('option', { value: version }, version));
  }

  showSummary(chosen, scored, since) {
    const seconds = chosen.length > 1 ? Math.max(1, (Date.now() - Math.max(since, chosen[0].at)) / 1000) : NaN;
    const violations = scored.filter((r) => !r.compliant).length;
    const rewards = sorted(scored.map((r) => r.compliance));
    fill(this.parts.summary, facts([
      ['Responses shown', count(chosen.length)],
      ['Responses per second', decimals(chosen.length / seconds, 1)],
      ['Mean reward', decimals(mean(rewards))], ['Median reward', decimals(quantile(rewards, 0.5))],
      ['Violations', scored.length > 0 ? `${count(violations)} (${percent(violations / scored.length, 1)})` : '–'],
      ['Empty responses', count(chosen.length - scored.length)],
    ]));
  }

  drawTime(scored, since) {
    const now = Date.now();
    const from = Math.max(since, Math.min(scored[0]?.at ?? now, now - 60_000));
    const width = (now - from) / points;
    const slots = Array.from({ length: points }, () => []);
    for (const r of scored) slots[Math.min(points - 1, Math.max(0, Math.floor((r.at - from) / width)))].push(r);
    const x = slots.map((_, i) => (from + (i + 0.5) * width) / 1000);
    const rewards = slots.map((slot) => sorted(slot.map((r) => r.compliance)));
    const line = (q) => rewards.map((values) => (values.length > 0 ? quantile(values, q) : null));
    const all = sorted(scored.map((r) => r.compliance));
    this.quantiles.draw(x, [0.1, 0.5, 0.9].map(line), scored.length > 0
      ? `10 % of the rewards are at most ${decimals(quantile(all, 0.1))}, half at most ${decimals(quantile(all, 0.5))}, 90 % at most ${decimals(quantile(all, 0.9))}.`
      : 'No rewards yet.');
    const perMinute = (n) => (n * 60_000) / width;
    const violations = slots.map((slot) => slot.filter((r) => !r.compliant).length);
    this.rates.draw(x, [slots.map((slot) => perMinute(slot.length)), violations.map(perMinute)],
      `On average ${decimals(perMinute(scored.length / points), 1)} responses and ${decimals(perMinute(violations.reduce((a, b) => a + b, 0) / points), 1)} violations per minute.`);
  }

  showHistogram(scored) {
    const versions = [...groupBy(scored, (r) => r.model)].sort((a, b) => b[1].length - a[1].length).slice(0, comparedVersions);
    fill(this.parts.histogram, el('h2', {}, 'Distribution of the rewards'),
      versions.length === 0 ? el('p', { class: 'hint' }, 'No rewards yet.') : el('div', { class: 'columns' }, versions.map(([version, all]) => histogramOf(version, histogram(all.map((r) => r.compliance), bins), all.length))));
  }

  showByVersion(scored) {
    fill(this.parts.versions, table('Rewards by model version', ['Model version', ...columns], [...groupBy(scored, (r) => r.model)].map(([version, all]) => [el('span', { class: 'mono' }, version), ...cells(all)])));
  }

  showByLength(scored) {
    const rows = [];
    for (let i = 0; i + 1 < lengths.length; i++) {
      const all = scored.filter((r) => r.characters >= lengths[i] && r.characters < lengths[i + 1]);
      rows.push([lengths[i + 1] === Infinity ? `${count(lengths[i])} and more` : `${count(lengths[i])} to ${count(lengths[i + 1] - 1)}`, ...cells(all)]);
    }
    fill(this.parts.lengths, table('Rewards by length in characters', ['Characters', ...columns], rows),
      el('p', { class: 'hint' }, 'If longer responses get clearly lower or higher rewards, a policy may learn the length instead of the behavior.'));
  }

  // Rows are kept, so that an update creates the new ones only.
  showRows(chosen) {
    const wanted = chosen.slice(-shownRows).reverse();
    const keep = new Set(wanted.map((r) => r.sequence));
    for (const [sequence, row] of this.rowOf) {
      if (keep.has(sequence)) continue;
      row.remove();
      this.rowOf.delete(sequence);
    }
    let before = this.rows.firstChild;
    for (const r of wanted) {
      let row = this.rowOf.get(r.sequence);
      if (!row) {
        row = rowFor(r);
        this.rowOf.set(r.sequence, row);
      }
      if (row === before) before = before.nextSibling;
      else this.rows.insertBefore(row, before);
    }
  }

  async readMetrics() {
    try {
      const now = { at: performance.now(), metrics: parse(await text('metrics', { signal: this.page.signal })) };
      this.showMachine(this.lastMetrics, now);
      this.lastMetrics = now;
    } catch (error) {
      if (error.name !== 'AbortError') fill(this.parts.machine, message('warning', error.message));
    }
  }

  showMachine(before, { at, metrics }) {
    const seconds = before ? (at - before.at) / 1000 : NaN;
    const rate = (name, labels) => (before ? ((sum(metrics, name, labels) ?? 0) - (sum(before.metrics, name, labels) ?? 0)) / seconds : NaN);
    const drift = metrics.get('assay_drift_distance') ?? [];
    const values = metrics.get('assay_drift_p_value') ?? [];
    fill(this.parts.machine, facts([
      ['Queue', plural(sum(metrics, 'assay_queue_tokens') ?? 0, 'token')],
      ['Wait in the queue, 95 % of requests', duration(metricQuantile(before?.metrics, metrics, 'assay_queue_wait_seconds', 0.95))],
      ['Throughput', `${decimals(rate('assay_responses_total'), 1)} responses/s, ${decimals(rate('assay_instances_total'), 1)} utterances/s`],
      ['Time that the model is busy', percent(Math.min(1, rate('assay_inference_seconds_sum')))],
      ['Batches', `${decimals(rate('assay_batch_tokens_count'), 1)}/s of ${decimals(rate('assay_batch_tokens_sum') / rate('assay_batch_tokens_count'), 0)} tokens`],
      ['Rejected because overloaded', count(sum(metrics, 'assay_requests_rejected_total', { reason: 'overloaded' }))],
      ...drift.map((d) => {
        const p = values.find((v) => v.labels.aspect === d.labels.aspect)?.value;
        return [`Drift${d.labels.aspect ? ` of ${d.labels.aspect}` : ''}`, `distance ${decimals(d.value)}, p = ${decimals(p)}`];
      }),
    ]), el('p', { class: 'hint' }, 'Drift compares recent scores with the first 1,000 of the current version (Kolmogorov-Smirnov): a small p means that they differ.'));
  }
}

const columns = ['Responses', 'Mean', '10 %', 'Median', '90 %', 'Violations', 'Nearly 0 or 1'];

function cells(all) {
  const rewards = sorted(all.map((r) => r.compliance));
  const share = (n) => (all.length > 0 ? percent(n / all.length, 1) : '–');
  return [
    count(all.length), decimals(mean(rewards)), ...[0.1, 0.5, 0.9].map((q) => decimals(quantile(rewards, q))),
    share(all.filter((r) => !r.compliant).length), share(rewards.filter((v) => v <= 0.01 || v >= 0.99).length),
  ];
}

function histogramOf(version, counts, n) {
  const [width, height, base] = [600, 130, 105];
  const high = Math.max(1, ...counts);
  const bar = width / counts.length;
  const below = counts.slice(0, counts.length / 2).reduce((a, b) => a + b, 0);
  const words = `${percent(below / n)} of ${plural(n, 'reward')} are below 0.5.`;
  return el('figure', {},
    svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Rewards of version ${version} in ${counts.length} bins from 0 to 1. ${words}` },
      counts.map((c, i) => svg('rect', { x: i * bar + 1, width: bar - 2, y: base - (c / high) * (base - 5), height: (c / high) * (base - 5), class: i < counts.length / 2 ? 'scale-bad' : 'scale-good' }, svg('title', {}, `${decimals(i / counts.length, 2)} to ${decimals((i + 1) / counts.length, 2)}: ${c}`))),
      svg('line', { x1: 0, x2: width, y1: base, y2: base, class: 'axis' }),
      svg('line', { x1: width / 2, x2: width / 2, y1: 0, y2: base, class: 'scale-threshold' }),
      svg('text', { x: 0, y: height - 4 }, '0 violation'),
      svg('text', { x: width / 2, y: height - 4, 'text-anchor': 'middle' }, 'threshold'),
      svg('text', { x: width, y: height - 4, 'text-anchor': 'end' }, 'compliant 1')),
    el('figcaption', { class: 'hint' }, el('span', { class: 'mono' }, version), `: ${words}`));
}

function rowFor(r) {
  return el('tr', { data: { sequence: r.sequence } },
    el('th', { scope: 'row' }, button(r.id, () => showResponse(r), { class: 'link mono', aria: { label: `Details of ${r.id}` } })),
    [
      new Date(r.at).toLocaleTimeString(), verdict(r), decimals(r.compliance), el('bdi', { class: 'witness-cell' }, r.witness ?? ''),
      decimals(r.violation, 4), decimals(r.threshold), count(r.utterances), count(r.characters), r.step ?? '', r.source, el('span', { class: 'mono' }, r.model),
    ].map((cell) => el('td', {}, cell)));
}
