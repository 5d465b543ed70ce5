// The page Training: what the training run of the fleet does or waits for.
import { follow, get, post } from './api.js';
import { announce, ask, button, el, facts, field, fill, message, table } from './elements.js';
import { ago, count, decimals, duration, percent, time } from './format.js';
import { lossCurve } from './losscurve.js';

// Milliseconds between reads of the status. Events also cause one.
const refreshEvery = { active: 3000, idle: 15000 };
const recent = 3000; // the age of an event that has just happened
const shownEvents = 50;
const kinds = [
  'model.trained', 'model.promoted', 'model.rejected', 'model.rolledback', 'model.load_failed',
  'training.started', 'training.progress', 'training.resumed', 'training.failed', 'training.canceled', 'feedback.erased', 'feedback.disputed', 'record.damaged',
];
const phases = {
  idle: 'No training run is active',
  collecting: 'Reading the labels',
  training: 'Training the candidate',
  gating: 'Comparing it with the current version',
  publishing: 'Storing the result',
};

export async function show(view, page) {
  const state = el('div', { id: 'training-state' });
  const events = el('div', { id: 'training-events' });
  const progress = []; // points of the loss, of the run that is shown
  let shown; // the status
  const start = button('Start a training run…', async () => {
    const answer = await ask('Start a training run', [
      el('p', {}, 'It starts as soon as no other run is in progress and there are enough labels.'),
      field('Reason, for the record', el('input', { name: 'reason', maxLength: 1000, autocomplete: 'off' })),
      el('p', {}, el('label', {}, el('input', { type: 'checkbox', name: 'refreeze' }), ' Evaluate with the current labels of the held-out responses'),
        el('br'), el('span', { class: 'hint' }, 'Use it after a change of the labeling policy. Otherwise their labels at the last promotion count.')),
    ], 'Start');
    if (!answer) return;
    page.report();
    try {
      await post('v1/training', { reason: answer.get('reason'), refreeze: answer.has('refreeze') }, { signal: page.signal });
      announce('The training run is requested.');
      await refresh();
    } catch (error) {
      page.report(error);
    }
  }, { disabled: !page.may('admin') });

  const stop = button('Stop the training run…', async () => {
    const { phase, id } = shown;
    const running = phase !== 'idle';
    const answer = await ask(running ? 'Stop the training run' : 'Withdraw the request', [
      el('p', {}, running
        ? 'What it has computed is discarded, and no version is promoted. Its labels count for the next run, which can start automatically after the cooldown.'
        : 'The requested training run does not start.'),
      field('Reason, for the record', el('input', { name: 'reason', maxLength: 1000, autocomplete: 'off' })),
    ], running ? 'Stop' : 'Withdraw');
    if (!answer) return;
    page.report();
    try {
      await post('v1/training/stop', { reason: answer.get('reason'), ...(running && { id }) }, { signal: page.signal });
      announce(running ? 'The training run is being stopped.' : 'The request is withdrawn.');
      await refresh();
    } catch (error) {
      page.report(error);
    }
  });
  const refresh = async () => {
    const status = await get('v1/training', { signal: page.signal });
    if (status.id !== shown?.id) progress.length = 0;
    if (status.progress) progress.push(status.progress);
    if (shown && shown.phase !== status.phase) announce(phases[status.phase] ?? status.phase);
    const same = JSON.stringify(shown) === JSON.stringify(status);
    shown = status;
    stop.disabled = !page.may('admin') || Boolean(status.canceled) || status.phase === 'publishing' || (status.phase === 'idle' && !status.asked);
    stop.textContent = status.phase === 'idle' && status.asked ? 'Withdraw the request…' : 'Stop the training run…';
    if (!same) fill(state, describe(status, progress, page)); // what has the focus stays
  };
  view.append(state, el('div', { class: 'actions' }, start, stop, !page.may('admin') && el('span', { class: 'hint' }, 'Starting or stopping one requires the scope admin.')),
    el('h2', {}, 'Recent events'), events);
  let timer;
  const update = async () => {
    clearTimeout(timer);
    if (!document.hidden || !shown) await refresh().catch(page.report);
    clearTimeout(timer); // of another update meanwhile
    if (page.signal.aborted) return;
    const active = shown && (shown.phase !== 'idle' || shown.asked);
    timer = setTimeout(update, active ? refreshEvery.active : refreshEvery.idle);
  };
  page.signal.addEventListener('abort', () => clearTimeout(timer));
  await update();
  showEvents(events, page, (event) => {
    if (event.kind === 'training.progress' && event.training === shown?.id) {
      progress.push(event.details);
      if (shown.phase !== 'training') update();
    } else if (event.kind !== 'training.progress' && Date.now() - new Date(event.time) < recent) {
      update(); // something ended or began just now
    }
  });
}

function describe(status, progress, page) {
  const active = status.phase !== 'idle';
  return [
    el('section', { class: 'card', aria: { label: 'Training run' } },
      el('h2', {}, phases[status.phase] ?? status.phase),
      active ? run(status, progress) : waiting(status)),
    status.canceled && message('info', `${status.canceled.by} stopped this run ${ago(status.canceled.time)}${status.canceled.reason ? `: ${status.canceled.reason}` : ''}. It ends within seconds.`),
    status.asked && message('info', `${status.asked.by} requested a training run ${ago(status.asked.time)}${status.asked.reason ? `: ${status.asked.reason}` : ''}. It has not started yet.`),
    status.last && last(status.last),
    el('div', { class: 'columns' }, labels(status, page), changes(status)),
  ];
}

function run(status, progress) {
  const steps = status.progress;
  return [
    el('ol', { class: 'phases' }, Object.entries(phases).filter(([name]) => name !== 'idle').map(([name, words]) =>
      el('li', { aria: name === status.phase ? { current: 'step' } : {} }, words))),
    steps && status.phase === 'training' && el('progress', { max: steps.steps, value: steps.step, aria: { label: 'Steps of the training run' } }),
    facts([
      ['Progress', steps && `step ${count(steps.step)} of ${count(steps.steps)} (${percent(steps.step / steps.steps)}), epoch ${steps.epoch} of ${steps.epochs}: ${steps.stage}`],
      ['Time left, without the gate', steps && status.phase === 'training' ? duration(steps.seconds_left) : undefined],
      ['Loss', steps && decimals(steps.loss)],
      ['Started', status.started && `${time(status.started)} (${ago(status.started)})`],
      ['Why', status.reason],
      ['Requested by', status.by],
      ['Fine-tunes', status.base],
      ['Responses', status.bags && count(status.bags)],
      ['Held out', status.held_out && count(status.held_out)],
      ['Replica', status.owner],
      ['Attempt', status.attempt > 1 ? count(status.attempt) : undefined],
      ['Interruptions', status.interrupted && count(status.interrupted)],
    ]),
    lossCurve(progress),
  ];
}

function waiting(status) {
  return [
    el('p', {}, el('strong', {}, 'Waits for: '), status.wait || 'nothing; a run starts now', '.'),
    facts([
      ['Automatic training', status.auto ? 'on' : 'off'],
      ['This may change at', status.next && time(status.next)],
    ]),
  ];
}

function last(outcome) {
  const signs = { promoted: ['✓', 'good-text'], rejected: ['✕', 'bad-text'], failed: ['!', 'bad-text'], canceled: ['■', ''] };
  const [sign, color] = signs[outcome.result] ?? ['', ''];
  return el('section', { class: 'card', aria: { label: 'Previous training run' } },
    el('h2', {}, 'Previous run: ', el('span', { class: color }, `${sign} ${outcome.result}`)),
    el('p', {}, outcome.reason),
    facts([
      ['Finished', `${time(outcome.finished)} (${ago(outcome.finished)})`],
      ['Candidate', outcome.version && el('a', { href: `#/models?version=${encodeURIComponent(outcome.version)}` }, outcome.version)],
      ['Stopped by', outcome.by],
      ['Consecutive failures', outcome.failures && count(outcome.failures)],
    ]));
}

function labels(status, page) {
  const f = status.feedback;
  return el('section', { class: 'card', aria: { label: 'Labels' } }, el('h2', {}, 'Labels'), facts([
    ['Responses to train on', `${count(f.bags)}, of which ${count(f.violations)} are violations`],
    ['New since the last run', page.may('admin') ? `${count(f.new.bags)}, of which ${count(f.new.violations)} are violations` : undefined],
    ['Held out for the gate', page.may('admin') ? `${count(f.held_out)}, of which ${count(f.held_out_violations)} are violations` : undefined],
    ['Omitted, since raters disagree', count(f.disputed)],
    ['Omitted, since a sender has too large a share', f.over_share ? count(f.over_share) : undefined],
    ['Raters', count(f.raters)],
  ]), !page.may('admin') && el('p', { class: 'hint' }, 'Only the scope admin sees how many are held out.'));
}

function changes(status) {
  const { drift, disagreement } = status;
  return el('section', { class: 'card', aria: { label: 'Signs of change' } }, el('h2', {}, 'Signs of change'),
    facts([
      ['Drift of the scores since the promotion', drift.reference ? `${decimals(drift.distance)} (Kolmogorov-Smirnov distance), p = ${drift.p_value.toPrecision(2)}` : 'not known yet: the first 1,000 scores of a version are the reference'],
      ['Labels that contradict the current version', `${count(disagreement.against)} of ${count(disagreement.labels)}`],
    ]));
}

/** Lists events, the newest first, as they happen. */
function showEvents(box, page, receive) {
  const events = [];
  const state = el('p', { class: 'hint' }, 'Connecting…');
  const rows = el('div');
  fill(box, state, rows);
  let drawing = false;
  const draw = () => {
    drawing = false;
    fill(rows, events.length === 0 ? el('p', {}, 'There are no events yet.') : table('Events', ['Time', 'Event', 'What happened', 'Version', 'By'], events.map((e) => [
      time(e.time), e.kind, e.reason, e.version ?? '', e.by ?? e.replica ?? '',
    ])));
  };
  const soon = () => { // one drawing for the events of the past
    if (!drawing) requestAnimationFrame(draw);
    drawing = true;
  };
  const on = { state: (now) => { state.textContent = now === 'open' ? 'Events appear as they happen.' : 'The connection to the service is lost; it is tried again.'; } };
  for (const kind of kinds) {
    on[kind] = (event) => {
      events.unshift(event);
      events.length = Math.min(events.length, shownEvents);
      receive(event);
      soon();
    };
  }
  on.failed = (failure) => page.report(new Error(failure.error?.message ?? 'The stream of events failed.'));
  follow(`v1/events?n=${shownEvents}`, on, page.signal);
  soon();
}
