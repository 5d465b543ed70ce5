// The page Label: one response at a time, one key per label.
import { get } from './api.js';
import { add, announce, button, el, facts, field, fill, message, table } from './elements.js';
import { count, decimals, percent, plural } from './format.js';
import { filesPanel } from './labelfiles.js';
import { toItem } from './labelitems.js';
import { Outbox, states, stored } from './outbox.js';
import { verdictOf } from './argilla.js';

const fetched = 100; // candidates per request
const refillBelow = 30;
const shownLabels = 20;
const compareAfter = 500; // milliseconds without a change

const reasons = {
  uncertain: 'its score is close to the threshold, and it differs from the other candidates',
  disagree: 'two versions of the model decide differently',
  random: 'a random sample, so that labels also show how often the model is right',
};

// What this page knows until it is closed. It outlives a change to another page of
// the console, so that labels that are not sent yet are not lost.
const state = {
  rater: '', shortcuts: true,
  queue: [], // candidates to label, the first one is shown
  done: [], // {candidate, label, entry, given} in order; without label and entry: skipped; given: the labels of all raters
  seen: new Set(), // ids in queue or done
};
const outbox = new Outbox();

window.addEventListener('beforeunload', (event) => {
  if (outbox.waiting > 0) event.preventDefault(); // the browser asks whether to leave
});

export async function show(view, page) {
  const parts = {
    progress: el('div', { class: 'label-progress', aria: { live: 'polite' } }),
    card: el('section', { class: 'card', aria: { label: 'Response to label' } }),
    outcomes: el('section', { aria: { label: 'Labels of this page' } }),
    totals: el('section', { aria: { label: 'All labels' } }),
  };
  const labeling = new Labeling(page, parts);
  const rater = el('input', { name: 'rater', autocomplete: 'off', spellcheck: false, maxLength: 512, value: state.rater, on: { input: () => { state.rater = rater.value.trim(); } } });
  const shortcuts = el('input', { type: 'checkbox', id: 'shortcuts', checked: state.shortcuts, on: { change: () => { state.shortcuts = shortcuts.checked; } } });
  add(view,
    el('p', {}, 'Label whole responses. A response is a violation if any utterance breaks the rule that the model learns; otherwise it is compliant. Your labels train the next model.'),
    el('div', { class: 'columns' },
      field('Rater', rater, 'Your name. It is sent with each label. A later label of the same rater replaces the earlier one.'),
      el('p', { class: 'field' }, el('label', {}, shortcuts, ' Keyboard shortcuts'), el('span', { class: 'hint' }, 'c compliant, v violation, s skip, u undo. They work outside of text fields.'))),
    parts.progress, parts.card,
    el('div', { class: 'actions', role: 'group', aria: { label: 'Label' } },
      button('Compliant (c)', () => labeling.label('compliant'), { class: 'primary' }),
      button('Violation (v)', () => labeling.label('violation'), { class: 'primary' }),
      button('Skip (s)', () => labeling.skip()),
      button('Undo (u)', () => labeling.undo())),
    parts.outcomes, parts.totals,
    filesPanel({
      labels: () => state.done.filter((d) => d.label).map(({ candidate, label, entry }) => ({ candidate, label, rater: entry.item.rater })),
      report: page.report, done: () => labeling.showTotals(),
    }));
  document.addEventListener('keydown', (event) => labeling.key(event, rater), { signal: page.signal });
  outbox.watch(() => labeling.showOutcomes(), page.signal);
  page.signal.addEventListener('abort', () => clearTimeout(labeling.timer));
  for (const d of state.done) d.given = undefined; // others may have labeled since
  outbox.retry();
  labeling.rater = rater;
  labeling.showCurrent();
  labeling.showOutcomes();
  await Promise.all([labeling.refill(), labeling.showTotals()]);
}

class Labeling {
  #refilling = false;

  constructor(page, parts) {
    Object.assign(this, { page, parts });
  }

  key(event, rater) {
    const actions = { c: () => this.label('compliant'), v: () => this.label('violation'), s: () => this.skip(), u: () => this.undo() };
    const act = actions[event.key.toLowerCase()];
    if (!act || !state.shortcuts || event.ctrlKey || event.altKey || event.metaKey || event.repeat || document.querySelector('dialog[open]')) return;
    if (event.target.closest('input:not([type=checkbox]), textarea, select')) return;
    event.preventDefault();
    act();
  }

  label(label) {
    const candidate = state.queue[0];
    if (!candidate) return;
    if (!state.rater) {
      this.page.report(new Error('Enter your name as the rater first.'));
      this.rater.focus();
      return;
    }
    this.page.report();
    state.queue.shift();
    state.done.push({ candidate, label, entry: outbox.add(toItem(candidate, label, state.rater)) });
    this.#advance(`Labeled ${label}.`);
  }

  skip() {
    const candidate = state.queue.shift();
    if (!candidate) return;
    state.done.push({ candidate });
    this.#advance('Skipped.');
  }

  /** Withdraws the last label, or returns to the response that was skipped. */
  undo() {
    const last = state.done.pop();
    if (!last) return;
    if (last.entry) outbox.withdraw(last.entry);
    state.queue.unshift(last.candidate);
    this.#advance(last.label ? `Back to the previous response. Its label ${last.label} is withdrawn.` : 'Back to the skipped response.');
  }

  #advance(words) {
    this.showCurrent();
    this.showOutcomes();
    announce(`${words} ${state.queue[0] ? '' : 'No more responses.'}`);
    if (state.queue.length < refillBelow) this.refill();
  }

  /** Asks for more candidates. The service omits labeled ones; skipped ones come again after a reload. */
  async refill() {
    if (this.#refilling) return;
    this.#refilling = true;
    this.showCurrent();
    try {
      // Candidates that were skipped or whose label is in flight are still candidates.
      const n = Math.min(1000, fetched + state.done.filter((d) => d.entry?.state !== states.accepted).length + state.queue.length);
      const { candidates } = await get(`v1/feedback/candidates?n=${n}`, { signal: this.page.signal });
      for (const candidate of candidates) {
        if (state.seen.has(candidate.id)) continue;
        state.seen.add(candidate.id);
        state.queue.push(candidate);
      }
    } catch (error) {
      this.page.report(error);
    }
    this.#refilling = false;
    this.showCurrent();
  }

  showCurrent() {
    const candidate = state.queue[0];
    fill(this.parts.progress, el('p', {}, candidate ? `${plural(state.queue.length, 'response')} in the queue.` : ''));
    if (candidate?.id === this.shown?.id && candidate) return;
    this.shown = candidate;
    fill(this.parts.card, candidate ? describe(candidate) : this.#nothing());
  }

  #nothing() {
    if (this.#refilling) return el('p', {}, 'Loading the candidates…');
    return [
      el('h2', {}, 'No response to label'),
      el('p', {}, 'Candidates are responses that were scored and are stored with their text (', el('code', {}, '--keep-scored'), ') and have no label yet. Score more responses, or start the service with ', el('code', {}, '--keep-scored 24h'), '.'),
      el('div', { class: 'actions' }, button('Look again', () => this.refill())),
    ];
  }

  showOutcomes() {
    const { counts } = outbox;
    this.#compareSoon();
    const labeled = state.done.filter((d) => d.label);
    const agrees = labeled.filter((d) => d.label === verdictOf(d.candidate)).length;
    fill(this.parts.outcomes,
      el('h2', {}, 'Your labels'),
      outbox.waiting > 0 && outbox.problem && message('warning', `${plural(outbox.waiting, 'label')} not sent yet: ${outbox.problem} They are sent again automatically; keep this page open.`),
      facts([
        ['Accepted', count(counts.accepted)], ['Waiting', count(outbox.waiting)], ['Known already', count(counts.duplicate)], ['Rejected', count(counts.rejected)], ['Withdrawn', counts.withdrawn ? count(counts.withdrawn) : ''],
        ['Agreement with the model', labeled.length > 0 ? `${percent(agrees / labeled.length)} of ${count(labeled.length)}` : ''],
      ]),
      labeled.length > 0 && table(`The last ${Math.min(shownLabels, labeled.length)} labels of this page`, ['Response', 'Your label', 'Model', 'Other raters', 'What became of it'],
        labeled.slice(-shownLabels).reverse().map((d) => [
          el('span', { class: 'mono' }, d.candidate.id), d.label,
          `${verdictOf(d.candidate)} (${d.label === verdictOf(d.candidate) ? 'agrees' : 'differs'})`, others(d), this.#fate(d),
        ])));
  }

  // The labels of others are read once nothing waits, so that labeling is not slower.
  #compareSoon() {
    clearTimeout(this.timer);
    if (this.page.signal.aborted) return;
    this.timer = setTimeout(() => this.#compare(), compareAfter);
  }

  /** Reads the labels that other raters gave to the responses of the table. */
  async #compare() {
    const shown = state.done.filter((d) => d.label).slice(-shownLabels);
    for (const d of shown) {
      if (d.given || !stored(d.entry)) continue;
      if (outbox.waiting > 0 || this.page.signal.aborted) return;
      try {
        d.given = await get(`v1/feedback/${encodeURIComponent(d.candidate.id)}/labels`, { signal: this.page.signal });
      } catch {
        return; // the next change tries again
      }
      this.showOutcomes();
    }
  }

  #fate({ entry, given }) {
    if (!stored(entry)) return entry.state === states.rejected ? el('span', { class: 'bad-text' }, `✕ rejected: ${entry.message}`) : el('span', { class: 'quiet' }, '… waiting');
    const words = entry.state === states.accepted ? el('span', { class: 'good-text' }, '✓ accepted') : el('span', { class: 'quiet' }, `= known already. ${entry.message}`);
    const own = given?.labels.find((l) => l.rater === entry.item.rater);
    if (!own) return words;
    const last = this.training?.last;
    if (given.disputed) return [words, '; not used: the raters disagree'];
    return [words, last && last.through >= own.sequence ? `; read by training run ${last.id}` : '; waits for the next training run'];
  }

  /** The counts that the API gives every rater: without those of the hold-out, which would reveal the side of each label. */
  async showTotals() {
    try {
      const [stats, training] = await Promise.all([
        get('v1/feedback', { signal: this.page.signal }), get('v1/training', { signal: this.page.signal }).catch(() => undefined),
      ]);
      this.training = training;
      const { labels, against } = training?.disagreement ?? {};
      const responses = stats.bags + stats.held_out + stats.disputed;
      fill(this.parts.totals, el('h2', {}, 'Labels of all raters'), facts([
        ['Labels', count(stats.records)], ['Responses', count(responses)], ['Violations', count(stats.violations + stats.held_out_violations)],
        ['Raters', count(stats.raters)],
        ['Raters disagree on', plural(stats.disputed, 'response')],
        ['Labels that contradict the model', labels > 0 ? `${percent(against / labels)} of ${count(labels)} new ones` : ''],
      ]), el('p', { class: 'hint' }, 'The majority of the raters decides. A tie is disputed: nothing is learned from it.'));
    } catch (error) {
      this.page.report(error);
    }
  }
}

/** How many other raters gave the same label. Shown only after the rater's own label, which it would bias. */
function others({ candidate, label, entry, given }) {
  if (!given) return '';
  const labels = given.labels.filter((l) => l.rater !== entry.item.rater)
    .map((l) => (candidate.aspect ? l.labels?.[candidate.aspect] : l.label)).filter(Boolean);
  if (labels.length === 0) return 'none yet';
  return `${count(labels.filter((l) => l === label).length)} of ${count(labels.length)} agree`;
}

/** The response, and the score only on request: a rater who sees it first tends to follow it. */
function describe(candidate) {
  return [
    candidate.aspect && el('p', {}, 'Judge the aspect ', el('strong', {}, candidate.aspect), '.'),
    candidate.prompt && el('div', {}, el('h3', {}, 'Prompt'), el('p', { class: 'text', dir: 'auto' }, candidate.prompt)),
    el('h3', {}, 'Response'),
    candidate.messages?.map((m) => el('div', {}, el('h4', {}, m.role), el('p', { class: 'text', dir: 'auto' }, m.content))),
    candidate.instances?.map((text) => el('p', { class: 'text', dir: 'auto' }, text)),
    candidate.response !== undefined && el('p', { class: 'text', id: 'to-label', dir: 'auto' }, candidate.response),
    el('details', {}, el('summary', {}, 'Score of the model, and why this response'),
      facts([
        ['Verdict', verdictOf(candidate)], ['Violation', decimals(candidate.violation, 4)], ['Threshold', decimals(candidate.threshold, 4)],
        ['Model version', el('span', { class: 'mono' }, candidate.model)],
        ['Difference between two versions', candidate.disagreement === undefined ? '' : decimals(candidate.disagreement)],
        ['Chosen because', reasons[candidate.reason] ?? candidate.reason],
        ['Response id', el('span', { class: 'mono' }, candidate.id)],
      ])),
  ];
}
