// The result of one response: the verdict, the reward on a scale, and the text with
// its utterances.
import { add, el, facts, fill, newId, svg, table } from './elements.js';
import { decimals, plural } from './format.js';
import { compliance, exceeds, tint } from './violation.js';

/** The verdict as a badge: words and a sign, not only a color. */
export function verdict(result) {
  if (result.empty) return el('span', { class: 'badge quiet' }, '– empty');
  return result.compliant
    ? el('span', { class: 'badge good-text' }, '✓ compliant')
    : el('span', { class: 'badge bad-text' }, '✕ violation');
}

/**
 * Shows a result of POST /v1/score (with offset_unit utf16 and instances) for the
 * item that was scored. model is {name, version}.
 */
export function resultCard(item, result, model, title) {
  const views = { '': result, ...result.aspects };
  const body = el('div');
  const show = (aspect) => fill(body, details(item, result, views[aspect], aspect));
  show('');
  return el('section', { class: 'card result', aria: { label: title } },
    el('h3', {}, title, ' ', verdict(result)),
    facts([
      ['Reward', el('strong', {}, decimals(result.reward))],
      ['Violation', decimals(result.violation, 4)],
      ['Threshold', decimals(result.threshold, 4)],
      ['Model version', el('span', { class: 'mono' }, model.version)],
      ['Aspect that decides', result.aspect],
    ]),
    result.truncated && el('p', { class: 'warn-text' }, 'The response has more utterances than the service scores; the rest was skipped.'),
    result.aspects && aspectChoice(result.aspects, show),
    body);
}

function aspectChoice(aspects, show) {
  const id = newId('aspect');
  return el('p', { class: 'field' }, el('label', { for: id }, 'Show aspect'),
    el('select', { id, on: { change: (event) => show(event.target.value) } },
      el('option', { value: '' }, 'the one that decides'),
      Object.keys(aspects).map((name) => el('option', { value: name }, name))));
}

function details(item, result, view, aspect) {
  if (result.empty) return el('p', {}, 'There is nothing to score: the response has no text. Its reward is the one that the service is configured with.');
  const name = aspect || result.aspect || '';
  const utterances = (result.instances ?? []).map((instance, index) => ({
    ...instance, index, violation: instance.aspects?.[name] ?? instance.violation, witness: index === view.witness?.index,
  }));
  const detail = el('p', { class: 'detail', id: newId('detail'), aria: { live: 'polite' } }, hint(utterances.length));
  const describe = (u) => fill(detail, sentence(u, utterances.length, view.threshold, u.witness));
  return [
    scale(view, utterances),
    texts(item).map((text, message) => text.show && el('div', {},
      text.label && el('h4', {}, text.label),
      utteranceText(text.content, utterances.filter((u) => belongs(u, item, message)), view.threshold, describe))),
    detail,
    result.aspects && aspectTable(result.aspects),
    utteranceTable(item, utterances, view.threshold),
  ];
}

const hint = (n) => (n > 1 ? 'Point at an utterance for its numbers, or press Tab and move with the arrow keys.' : 'Point at the utterance for its numbers.');

function sentence(u, n, threshold, witness) {
  const side = exceeds(u.violation, threshold) ? 'above' : 'up to';
  return [
    el('strong', {}, `Utterance ${u.index + 1} of ${n}${witness ? ', the witness' : ''}: `),
    `violation ${decimals(u.violation, 4)}, ${side} the threshold ${decimals(threshold, 4)}; characters ${u.start} to ${u.end} (UTF-16).`,
  ];
}

/** The texts of an item: {content, label, show}. Only what is scored has utterances. */
function texts(item) {
  if (item.messages) return item.messages.map((m) => ({ content: m.content, label: m.role, show: true }));
  if (item.instances) return item.instances.map((content, i) => ({ content, label: `instance ${i + 1}`, show: true }));
  return [{ content: item.response ?? '', show: true }];
}

function belongs(u, item, index) {
  if (item.messages) return u.message === index;
  if (item.instances) return u.index === index;
  return true;
}

/**
 * The text with its utterances. One of them is in the tab order; arrow keys, Home
 * and End move between them. Offsets are UTF-16 code units, as those of strings.
 */
function utteranceText(text, utterances, threshold, describe) {
  const box = el('div', { class: 'text', role: 'group', dir: 'auto', aria: { label: `Text with ${utterances.length} scored utterances` } });
  const spans = [];
  let at = 0;
  for (const u of utterances) {
    if (u.start < at) continue; // never the case: utterances follow each other
    add(box, text.slice(at, u.start));
    const strength = tint(u.violation, threshold);
    const span = el(u.witness ? 'mark' : 'span', {
      class: `utterance${u.witness ? ' witness' : ''}${exceeds(u.violation, threshold) ? ' over' : ''}`,
      tabIndex: spans.length === 0 ? 0 : -1,
      style: { '--strength': `${Math.round(100 * strength)}%` },
      data: { index: u.index, violation: u.violation },
      on: { mouseenter: () => describe(u), focus: () => describe(u), click: () => span.focus() },
    }, text.slice(u.start, u.end));
    spans.push(span);
    box.append(span);
    at = u.end;
  }
  add(box, text.slice(at));
  box.addEventListener('keydown', (event) => {
    const now = spans.indexOf(document.activeElement);
    const steps = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: spans.length - 1 };
    const next = spans[steps[event.key]];
    if (now < 0 || !(event.key in steps)) return;
    event.preventDefault();
    if (!next) return;
    spans[now].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return box;
}

/** What the tint, the underline and the outline mean. */
export function legend() {
  return el('p', { class: 'hint legend' },
    el('span', { class: 'utterance', style: { '--strength': '8%' } }, 'far below the threshold'), ' ',
    el('span', { class: 'utterance over', style: { '--strength': '92%' } }, 'above it: underlined'), ' ',
    el('mark', { class: 'utterance witness', style: { '--strength': '50%' } }, 'the witness: outlined'));
}

/** The reward on a scale of compliance: 0.5 is the threshold. */
function scale(view, utterances) {
  const width = 400;
  const x = (value) => 10 + value * (width - 20);
  const at = compliance(view.violation, view.threshold);
  const label = `The response is at ${decimals(at)} on a scale of compliance from 0 to 1, where the threshold is at 0.5.`;
  return el('figure', { class: 'scale' },
    svg('svg', { viewBox: `0 0 ${width} 46`, role: 'img', 'aria-label': label },
      svg('rect', { x: x(0), y: 18, width: x(0.5) - x(0), height: 10, class: 'scale-bad' }),
      svg('rect', { x: x(0.5), y: 18, width: x(1) - x(0.5), height: 10, class: 'scale-good' }),
      utterances.slice(0, 200).map((u) => svg('line', {
        x1: x(compliance(u.violation, view.threshold)), x2: x(compliance(u.violation, view.threshold)), y1: 18, y2: 28, class: 'scale-utterance',
      })),
      svg('line', { x1: x(0.5), x2: x(0.5), y1: 12, y2: 34, class: 'scale-threshold' }),
      svg('path', { d: `M${x(at)} 17 l-7 -11 h14 z`, class: 'scale-response' })),
    el('figcaption', { class: 'scale-words hint' },
      el('span', {}, '0 violation'), el('span', {}, 'threshold'), el('span', {}, 'compliant 1')));
}

function aspectTable(aspects) {
  return table('Aspects', ['Aspect', 'Verdict', 'Reward', 'Violation', 'Threshold', 'Witness'], Object.entries(aspects).map(([name, a]) => [
    name, verdict(a), decimals(a.reward), decimals(a.violation, 4), decimals(a.threshold, 4), el('bdi', {}, a.witness?.text ?? ''),
  ]));
}

const shownRows = 200;

function utteranceTable(item, utterances, threshold) {
  const parts = texts(item);
  const content = (u) => parts[item.messages ? u.message : item.instances ? u.index : 0]?.content.slice(u.start, u.end) ?? '';
  const box = el('details', { class: 'utterances' }, el('summary', {}, `${plural(utterances.length, 'utterance')} as a table`));
  box.addEventListener('toggle', () => {
    if (!box.open || box.children.length > 1) return;
    add(box, table('Utterances', ['Number', 'Violation', 'Side of the threshold', 'Text'], utterances.slice(0, shownRows).map((u) => [
      `${u.index + 1}${u.witness ? ' (witness)' : ''}`, decimals(u.violation, 4), exceeds(u.violation, threshold) ? 'above' : 'below', el('bdi', { class: 'pre' }, content(u)),
    ])), utterances.length > shownRows && el('p', { class: 'hint' }, `The first ${shownRows} are shown.`));
  });
  return box;
}
