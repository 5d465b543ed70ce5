// The page Health: whether the service can score, and whether it keeps up.
import { ApiError, address, text } from './api.js';
import { el, facts, fill, message, table } from './elements.js';
import { bytes, count, decimals, duration, percent, plural } from './format.js';
import { parse, quantile, sum } from './prometheus.js';

const refreshEvery = 5000; // milliseconds
// The share of the time in which the model computes, and the wait of one in twenty
// requests in seconds, above which a service has little room for more.
const busy = 0.8;
const longWait = 1;

export async function show(view, page) {
  const readiness = el('div', { id: 'readiness' });
  const load = el('div', { id: 'load' });
  view.append(readiness, load);
  let before; // {at, metrics}
  let shown; // the checks, as JSON
  const refresh = async () => {
    const [ready, exposition] = await Promise.all([checks(page.signal), text('metrics', { signal: page.signal })]);
    const now = { at: performance.now(), metrics: parse(exposition) };
    if (shown !== JSON.stringify(ready)) fill(readiness, showChecks(ready)); // what is being read stays
    shown = JSON.stringify(ready);
    fill(load, showLoad(before, now));
    before = now;
    page.report();
  };
  const guarded = () => refresh().catch((error) => {
    page.report(error);
    before = undefined; // rates over an outage would be wrong
  });
  await guarded();
  const timer = setInterval(() => document.hidden || guarded(), refreshEvery);
  page.signal.addEventListener('abort', () => clearInterval(timer));
}

/** /readyz responds 503 with a body of the same form. */
async function checks(signal) {
  let response;
  try {
    response = await fetch(address('readyz?streams=1'), { signal, cache: 'no-store', headers: { Accept: 'application/json' } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.');
  }
  return response.json();
}

const dependencies = { model: 'The model is loaded', streams: 'The streams of NATS are available' };

function showChecks(ready) {
  const words = {
    ready: ['good', 'The service is ready.'],
    not_ready: ['warning', 'A dependency of the service is not ready.'],
    draining: ['warning', 'The service is shutting down.'],
  };
  const [kind, sentence] = words[ready.status] ?? ['warning', ready.status];
  return [
    message(kind, sentence),
    ready.checks && table('Dependencies', ['Dependency', 'State'], Object.entries(ready.checks).map(([name, state]) => [
      dependencies[name] ?? name,
      state === 'ok' ? el('span', { class: 'good-text' }, '✓ ready') : el('span', { class: 'bad-text' }, `✕ ${state}`),
    ])),
  ];
}

function showLoad(before, now) {
  const m = now.metrics;
  const seconds = before && (now.at - before.at) / 1000;
  const per = (name, labels) => {
    const [first, last] = [before && sum(before.metrics, name, labels), sum(m, name, labels)];
    return seconds && first !== undefined && last >= first ? (last - first) / seconds : undefined;
  };
  const rate = (value, unit) => (value === undefined ? undefined : `${value.toFixed(value < 10 ? 1 : 0)} ${unit} per second`);
  const spread = (name, labels) => {
    const [half, most] = [0.5, 0.95].map((q) => quantile(before?.metrics, m, name, q, labels));
    return half === undefined ? 'none' : `median ${duration(half)}, 95th percentile ${duration(most)}`;
  };
  const since = before ? `of the last ${Math.round(seconds)} s` : 'since the start';
  const rejected = sum(m, 'assay_requests_rejected_total', { reason: 'overloaded' });
  const hits = sum(m, 'assay_cache_hits_total') ?? 0;
  const misses = sum(m, 'assay_cache_misses_total') ?? 0;
  const batches = per('assay_batch_sequences_count');
  const versions = (m.get('assay_model_loaded') ?? []).filter((s) => s.value === 1).map((s) => s.labels.model_version);
  const current = (m.get('assay_model_current') ?? []).find((s) => s.value === 1)?.labels.model_version;
  return [
    keepsUp(m, per, quantile(before?.metrics, m, 'assay_queue_wait_seconds', 0.95)),
    el('div', { class: 'columns' },
      group('Throughput', [
        ['Responses', rate(per('assay_responses_total'), 'responses')],
        ['Responses since the start', count(sum(m, 'assay_responses_total'))],
        ['Utterances', rate(per('assay_instances_total'), 'utterances')],
        ['Requests in flight', count((sum(m, 'assay_http_requests_in_flight') ?? 0) + (sum(m, 'assay_grpc_requests_in_flight') ?? 0))],
        [`Time of POST /v1/score, ${since}`, spread('assay_http_request_duration_seconds', { route: '/v1/score' })],
      ]),
      group('Queue', [
        ['Tokens that wait for the model', count(sum(m, 'assay_queue_tokens'))],
        [`Wait, ${since}`, spread('assay_queue_wait_seconds')],
        ['Requests refused, since the model could not keep up', count(rejected)],
      ]),
      group('Batches', [
        ['Time in which the model computes', percentOf(per('assay_inference_seconds_sum'))],
        ['Batches', rate(batches, 'batches')],
        ['Utterances per batch', batches ? decimals(per('assay_batch_sequences_sum') / batches, 1) : undefined],
        ['Tokens per batch', batches ? count(per('assay_batch_tokens_sum') / batches) : undefined],
        [`Time of a batch, ${since}`, spread('assay_inference_seconds')],
        ['Failed batches', count(sum(m, 'assay_model_errors_total'))],
      ]),
      group('Cache of utterances', [
        ['Scored without the model', hits + misses > 0 ? `${percent(hits / (hits + misses), 1)} of ${count(hits + misses)}` : 'nothing yet'],
        ['Size', bytes(sum(m, 'assay_cache_bytes'))],
      ]),
      group('Memory', [
        ['Requests in flight', `${bytes(sum(m, 'assay_request_memory_bytes'))} of ${bytes(sum(m, 'assay_request_memory_limit_bytes'))}`],
        ['Requests refused for lack of memory', count(sum(m, 'assay_request_memory_refused_total'))],
        ['Models with full caches', bytes(sum(m, 'assay_model_bytes'))],
        ['Process', bytes(sum(m, 'process_resident_memory_bytes'))],
      ]),
      group('Models', [
        ['Current version', current && el('span', { class: 'mono' }, current)],
        ['Loaded versions', plural(versions.length, 'version')],
        ['Failed loads', count(sum(m, 'assay_model_load_failures_total'))],
        ['Call takes longer than its limit', sum(m, 'assay_model_stalled') === 1 ? 'yes: the replica will exit' : 'no'],
      ]),
      natsGroup(m, rate, per)),
    buildFacts(m),
  ];
}

const percentOf = (share) => (share === undefined ? undefined : percent(Math.min(1, share)));

function group(title, entries) {
  return el('section', { class: 'card', aria: { label: title } }, el('h2', {}, title), facts(entries));
}

/** One sentence that says whether the service keeps up. */
function keepsUp(m, per, wait = 0) {
  const share = per('assay_inference_seconds_sum');
  const refused = per('assay_requests_rejected_total', { reason: 'overloaded' });
  const waiting = sum(m, 'assay_queue_tokens') ?? 0;
  if (share === undefined) return message('info', 'Rates appear with the next measurement, in 5 s.');
  if (refused > 0) return message('warning', 'The service does not keep up: it refuses requests, which clients send again later.');
  const work = `the model computes ${percent(Math.min(1, share))} of the time, and ${plural(waiting, 'token')} wait`;
  if (wait > longWait) return message('warning', `Requests queue: ${work}; one request in twenty waits longer than ${duration(wait)}.`);
  if (share > busy) return message('info', `The service keeps up, and is busy: ${work}. More requests share batches, which takes less time per request, and wait longer.`);
  return message('good', `The service keeps up: ${work}.`);
}

function natsGroup(m, rate, per) {
  if (!m.has('assay_nats_in_flight')) return group('NATS', [['State', 'The service runs without NATS.']]);
  const limit = sum(m, 'assay_nats_responses_max_bytes');
  return group('NATS', [
    ['Responses that wait for delivery', count(sum(m, 'assay_nats_consumer_pending'))],
    ['Delivered, not acknowledged', count(sum(m, 'assay_nats_consumer_ack_pending'))],
    ['In this process', count(sum(m, 'assay_nats_in_flight'))],
    ['Rewards', rate(per('assay_nats_messages_total', { outcome: 'rewarded' }), 'rewards')],
    ['Redeliveries', count(sum(m, 'assay_nats_redeliveries_total'))],
    ['Dead letters', count(sum(m, 'assay_nats_dead_letters_total'))],
    ['Failed publications', count(sum(m, 'assay_nats_publish_errors_total'))],
    ['Stream of responses', `${bytes(sum(m, 'assay_nats_responses_bytes'))}${limit ? ` of ${bytes(limit)}` : ''}`],
    ['Oldest response', duration(sum(m, 'assay_nats_responses_oldest_seconds'))],
  ]);
}

function buildFacts(m) {
  const build = m.get('assay_build_info')?.[0]?.labels;
  return build && el('p', { class: 'hint' }, `assay ${build.version}, commit ${build.revision}, ${build.goversion}.`);
}
