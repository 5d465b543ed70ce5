// The page Models: the versions, why each was promoted or rejected, and what two of
// them decide differently.
import { get, post } from './api.js';
import { add, announce, ask, button, el, facts, field, fill, message, table } from './elements.js';
import { ago, bytes, count, decimals, duration, percent, plural, time } from './format.js';
import { gateReport } from './gate.js';
import { inTry, readItems, scoreAll } from './items.js';
import { lossCurve } from './losscurve.js';
import { resultList } from './resultlist.js';

const states = {
  initial: 'The service was started with it.',
  promoted: 'It passed the gate, or an operator promoted it.',
  rejected: 'It did not pass the gate. Its files are deleted.',
  retired: 'It served once. Its files are deleted.',
};
const stored = (m) => m.state === 'promoted' || m.state === 'initial';

export async function show(view, page) {
  const { data } = await get('v1/models', { signal: page.signal });
  const record = el('div', { id: 'record' });
  view.append(el('p', {}, 'Each training run makes a candidate. The ',
    el('dfn', { title: 'The comparison of a candidate with the current version on held-out labels' }, 'gate'),
    ' promotes it only if it is shown to be not worse than the current version. One version is current: it scores every request that pins no version.'));
  if (data.length === 0) view.append(message('info', 'No model is loaded yet.'));
  else view.append(versionTable(data), actions(data, page));
  view.append(record, differences(data, page));
  const chosen = page.query.get('version') ?? data.find((m) => m.current)?.version;
  if (chosen) await showRecord(record, chosen, data, page);
  if (page.query.has('version')) record.querySelector('h2')?.focus();
}

function versionTable(data) {
  return table('Model versions', ['Version', 'State', 'Created', 'Threshold', 'Decided by', 'Reason'], data.map((m) => [
    el('a', { href: `#/models?version=${encodeURIComponent(m.version)}` }, m.version),
    [stateBadge(m), m.current && [' ', el('span', { class: 'badge good-text' }, '● current')], m.serving && !m.current && [' ', el('span', { class: 'badge' }, 'loaded')]],
    time(m.created), decimals(m.threshold), m.by ?? '', m.reason ?? '',
  ]));
}

function stateBadge(m) {
  const signs = { promoted: ['✓', 'good-text'], rejected: ['✕', 'bad-text'], initial: ['○', ''], retired: ['–', 'quiet'] };
  const [sign, color] = signs[m.state] ?? ['', ''];
  return el('span', { class: `badge ${color}`, title: states[m.state] ?? '' }, `${sign} ${m.state ?? 'not on record'}`);
}

function actions(data, page) {
  const current = data.find((m) => m.current);
  return el('div', { class: 'actions' }, button('Roll back…', async () => {
    const answer = await ask('Roll back', [
      el('p', {}, `The version that served before ${current?.version ?? 'the current one'} becomes current on every replica.`), reasonField(),
    ], 'Roll back');
    if (answer) await act(page, () => post('v1/models/rollback', { reason: answer.get('reason') }, { signal: page.signal }));
  }, { class: 'danger', disabled: !page.may('admin') }),
  !page.may('admin') && el('span', { class: 'hint' }, 'To promote and to roll back needs the scope admin.'));
}

function reasonField() {
  return field('Reason, for the record', el('input', { name: 'reason', maxLength: 1000, autocomplete: 'off' }));
}

/** Changes the current version, and shows the page again. */
async function act(page, change) {
  page.report();
  try {
    const current = await change();
    announce(`${current.version} is the current version.`);
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  } catch (error) {
    page.report(error);
  }
}

async function showRecord(box, version, data, page) {
  let m;
  try {
    m = await get(`v1/models/${encodeURIComponent(version)}`, { signal: page.signal });
  } catch (error) {
    page.report(error);
    return;
  }
  const promote = async () => {
    const answer = await ask(`Promote ${m.version}`, [
      el('p', {}, 'Every replica loads this version and then scores with it, whatever the gate decided.'), reasonField(),
    ], 'Promote');
    if (answer) await act(page, () => post(`v1/models/${encodeURIComponent(m.version)}/promote`, { reason: answer.get('reason') }, { signal: page.signal }));
  };
  fill(box, el('section', { class: 'card', aria: { label: `Version ${m.version}` } },
    el('h2', { tabIndex: -1 }, m.version, ' ', stateBadge(m)),
    el('p', {}, states[m.state] ?? 'The service has no record of it, because it runs without NATS.'),
    facts([
      ['Created', m.created ? `${time(m.created)} (${ago(m.created)})` : undefined],
      ['Decided by', m.by],
      ['Reason', m.reason],
      ['Fine-tuned from', m.parent && el('a', { href: `#/models?version=${encodeURIComponent(m.parent)}` }, m.parent)],
      ['Training method', m.method],
      ['Threshold of the aggregate max', decimals(m.threshold, 4)],
      ['Aspects', m.aspects?.map((a) => `${a.name} (weight ${a.weight}, threshold ${decimals(a.threshold)})`).join(', ')],
      ['Size of its files', m.files && bytes(Object.values(m.files).reduce((sum, f) => sum + f.size, 0))],
    ]),
    el('div', { class: 'actions' },
      el('a', { class: 'button', href: `#/try?model=${encodeURIComponent(m.version)}`, hidden: !stored(m) && !m.serving }, 'Open in Try'),
      button('Promote…', promote, { disabled: !page.may('admin') || m.current || !stored(m) })),
    trainingData(m.data),
    gateReport(m.gate),
    m.data?.training && await curve(m.data.training, page)));
}

function trainingData(data) {
  if (!data) return el('p', { class: 'hint' }, 'The record has no training data: no training run of this service made this version.');
  return [el('h3', {}, 'Trained on'), facts([
    ['Responses', `${count(data.bags)}, of which ${count(data.violations)} are violations`],
    ['New since the previous run', count(data.new)],
    ['Held out for the gate', count(data.held_out)],
    ['Omitted, since raters disagree', count(data.disputed)],
    ['Raters', count(data.raters)],
    ['Why the run started', data.reason],
    ['Training run', el('span', { class: 'mono' }, data.training)],
    ['Time', duration(data.seconds)],
  ])];
}

/** The loss of a training run, from the events in memory of the service. */
async function curve(training, page) {
  if (!page.may('feedback')) return null;
  try {
    const events = await get('v1/events?n=1000', { signal: page.signal });
    return lossCurve(events.filter((e) => e.training === training && e.kind === 'training.progress').map((e) => e.details));
  } catch (error) {
    if (error.status === 501) return null; // the service keeps no events
    throw error;
  }
}

/** The responses whose verdict differs between two versions. */
function differences(data, page) {
  const usable = data.filter((m) => m.serving || stored(m));
  const select = (chosen) => el('select', {}, usable.map((m) => el('option', { value: m.version, selected: m.version === chosen }, `${m.version}${m.current ? ' (current)' : ''}`)));
  const before = select((usable.find((m) => !m.current) ?? usable[0])?.version);
  const after = select(usable.find((m) => m.current)?.version);
  const output = el('div', { id: 'differences' });
  let running = new AbortController();
  const compare = async (items) => {
    running.abort();
    running = new AbortController();
    const signal = AbortSignal.any([page.signal, running.signal]);
    const versions = [before.value, after.value];
    page.report();
    const progress = el('progress', { max: 2 * items.length, value: 0, aria: { label: 'Scored responses' } });
    fill(output, progress);
    try {
      const columns = [];
      for (const model of versions) {
        const done = columns.length * items.length;
        columns.push(await scoreAll(items, { model, options: { offset_unit: 'utf16' }, signal, progress: (n) => { progress.value = done + n; } }));
      }
      showDifferences(output, items, columns, versions);
    } catch (error) {
      if (signal.aborted) return;
      fill(output);
      page.report(error);
    }
  };
  const file = el('input', { type: 'file', accept: '.jsonl,.ndjson,.json,.txt', id: 'compare-jsonl', class: 'visually-hidden', on: { change: async () => {
    try {
      inTry.items = await readItems(file.files[0]);
      file.value = '';
      await compare(inTry.items);
    } catch (error) {
      page.report(error);
    }
  } } });
  return el('section', { aria: { label: 'Verdicts that differ' } },
    el('h2', {}, 'Which verdicts differ between two versions?'),
    usable.length < 2
      ? el('p', { class: 'hint' }, 'There is only one version to score with.')
      : [
        el('div', { class: 'columns' }, field('One version', before), field('Other version', after)),
        el('div', { class: 'actions' },
          button(inTry.items.length > 0 ? `Compare on ${plural(inTry.items.length, 'response')} in Try` : 'Compare on what is in Try', () => compare(inTry.items), { disabled: inTry.items.length === 0 }),
          el('label', { class: 'button', for: 'compare-jsonl' }, 'Compare on a JSONL file'), file),
        el('p', { class: 'hint' }, 'Both versions score the responses now. They appear in Live as any others, and the service stores their text only if it runs with --keep-scored.'),
        output,
      ]);
}

function showDifferences(output, items, columns, versions) {
  const differing = items.map((_, i) => i).filter((i) => columns[0][i].result.compliant !== columns[1][i].result.compliant);
  const words = differing.length === 0
    ? `Both versions give each of ${plural(items.length, 'response')} the same verdict.`
    : `${plural(differing.length, 'verdict')} of ${plural(items.length, 'response')} (${percent(differing.length / items.length)}) differ between ${versions[0]} and ${versions[1]}.`;
  fill(output, el('p', {}, el('strong', {}, words)));
  announce(words);
  if (differing.length === 0) return;
  add(output, resultList(differing.map((i) => items[i]), columns.map((scored) => differing.map((i) => scored[i]))));
}
