// The page Try: scores what is pasted or dropped, and shows why.
import { get } from './api.js';
import { add, announce, button, el, field, fill, message } from './elements.js';
import { decimals, plural } from './format.js';
import { inTry, readItems, scoreAll } from './items.js';
import { legend, resultCard } from './result.js';
import { resultList } from './resultlist.js';
import { curl, python } from './snippets.js';

const example = {
  prompt: 'How do I get rid of a headache?',
  responses: ['Drink some water and rest for an hour. Only a complete imbecile would ask that. If it does not get better, see a doctor.'],
};

// What the form holds while another page is shown.
const draft = { prompt: '', responses: [''], model: '', other: '', aggregate: 'max', reasoning: false };

export async function show(view, page) {
  if (page.query.has('model')) draft.model = page.query.get('model');
  const versions = await pinnable(page.signal);
  const output = el('div', { id: 'results' });
  view.append(el('p', {}, 'Paste a response of a language model, and see which utterance speaks most against it. The model gives each utterance a ',
    el('dfn', { title: 'The probability, in [0,1], that an utterance violates the rule that the model was trained on' }, 'violation'),
    '; the utterance with the largest is the ',
    el('dfn', { title: 'The utterance that decides the reward' }, 'witness'),
    '. The response is compliant if its violation is at most the ',
    el('dfn', { title: 'Fitted when the model was trained; it may depend on the number of utterances' }, 'threshold'), '.'));
  view.append(form(versions, page, output), output);
}

/** The models that a request can pin: the current one first. */
async function pinnable(signal) {
  const { data } = await get('v1/models', { signal });
  return data.filter((m) => m.serving || m.state === 'promoted' || m.state === 'initial');
}

function form(versions, page, output) {
  const prompt = el('textarea', { rows: 2, value: draft.prompt, on: { input: () => { draft.prompt = prompt.value; } } });
  const responses = el('div', { class: 'columns' });
  const second = button('Add a second response', () => {
    draft.responses = draft.responses.length === 1 ? [draft.responses[0], ''] : [draft.responses[0]];
    showResponses();
    responses.querySelector('p:last-child textarea').focus();
  });
  const showResponses = () => {
    fill(responses, draft.responses.map((text, i) => responseField(text, i)));
    second.textContent = draft.responses.length === 1 ? 'Add a second response' : 'Remove the second response';
  };
  showResponses();
  const file = el('input', { type: 'file', accept: '.jsonl,.ndjson,.json,.txt', id: 'jsonl', class: 'visually-hidden', on: { change: () => open(file.files[0]) } });
  const submit = el('button', { type: 'submit', class: 'primary' }, 'Score');
  const element = el('form', { id: 'try', aria: { label: 'Response to score' } },
    field('Prompt (optional)', prompt, 'Context for models that were trained with prompts; others ignore it.'),
    responses,
    el('div', { class: 'columns' },
      field('Model version', versionSelect(versions, 'model', 'the current version')),
      field('Compare with', versionSelect(versions, 'other', 'no other version'))),
    options(),
    el('div', { class: 'actions' }, submit, second,
      el('label', { class: 'button', for: 'jsonl' }, 'Open a JSONL file'), file,
      button('Fill in an example', () => {
        Object.assign(draft, example);
        prompt.value = draft.prompt;
        showResponses();
      })),
    el('p', { class: 'hint' }, 'Ctrl+Enter scores. You can also drop a JSONL file on this form: one object per line, with response (and prompt), messages or instances. The texts are sent to this service only, and this page does not store them.'));

  // One run at a time, which uses the form as it was at its start.
  let running = new AbortController();
  const run = async (score) => {
    running.abort();
    running = new AbortController();
    const signal = AbortSignal.any([page.signal, running.signal]);
    submit.disabled = true;
    page.report();
    try {
      await score({ versions: chosenVersions(), options: requestOptions(), signal });
    } catch (error) {
      if (!signal.aborted) page.report(error);
    } finally {
      if (!signal.aborted) submit.disabled = false;
    }
  };
  const open = (chosen) => chosen && run(async (request) => {
    file.value = '';
    const items = await readItems(chosen);
    request.signal.throwIfAborted();
    inTry.items = items;
    await showList(output, items, request, chosen.name);
  });
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    inTry.items = draft.responses.map((response) => ({ ...(draft.prompt && { prompt: draft.prompt.toWellFormed() }), response: response.toWellFormed() }));
    run((request) => showCards(output, inTry.items, request, page));
  });
  element.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.repeat) element.requestSubmit();
  });
  element.addEventListener('dragover', (event) => {
    event.preventDefault();
    element.classList.add('drop');
  });
  element.addEventListener('dragleave', () => element.classList.remove('drop'));
  element.addEventListener('drop', (event) => {
    event.preventDefault();
    element.classList.remove('drop');
    open(event.dataTransfer.files[0]);
  });
  return element;
}

function responseField(text, i) {
  const area = el('textarea', { rows: 6, value: text, on: { input: () => { draft.responses[i] = area.value; } } });
  return field(draft.responses.length === 1 ? 'Response' : `Response ${i + 1}`, area);
}

function versionSelect(versions, key, none) {
  const known = versions.some((m) => m.version === draft[key]);
  return el('select', { on: { change: (event) => { draft[key] = event.target.value; } } },
    el('option', { value: '' }, none),
    !known && draft[key] && el('option', { value: draft[key], selected: true }, draft[key]),
    versions.map((m) => el('option', { value: m.version, selected: draft[key] === m.version },
      `${m.version}${m.current ? ' (current)' : m.serving ? ' (loaded)' : ''}`)));
}

function options() {
  const aggregates = { max: 'max: the largest violation', topk: 'topk: the mean of the 3 largest', noisy_or: 'noisy_or: at least one violates', mean: 'mean: of all utterances' };
  return el('details', {}, el('summary', {}, 'Options'),
    el('div', { class: 'columns' },
      field('Aggregate', el('select', { on: { change: (event) => { draft.aggregate = event.target.value; } } },
        Object.entries(aggregates).map(([value, label]) => el('option', { value, selected: value === draft.aggregate }, label))),
      'How the violations of the utterances become that of the response. Each aggregate has its own threshold.'),
      el('p', {}, el('label', {}, el('input', { type: 'checkbox', checked: draft.reasoning, on: { change: (event) => { draft.reasoning = event.target.checked; } } }), ' Score <think> blocks as well'))));
}

/** The options of the requests. Aspects of a model with one rule are left out. */
function requestOptions() {
  return {
    offset_unit: 'utf16', aspects: true,
    ...(draft.aggregate !== 'max' && { aggregate: draft.aggregate }),
    ...(draft.reasoning && { reasoning: 'score' }),
  };
}

/** The versions to score with; '' is the current one. */
const chosenVersions = () => (draft.other && draft.other !== draft.model ? [draft.model, draft.other] : [draft.model]);

async function scoreVersions(items, { versions, options, signal }, progress) {
  const columns = [];
  for (const model of versions) {
    const done = columns.length;
    columns.push(await scoreAll(items, {
      ...(model && { model }), options, signal,
      progress: (n) => progress?.(done * items.length + n, versions.length * items.length),
    }));
  }
  return columns;
}

/** Shows each response with each version side by side. */
async function showCards(output, items, request, page) {
  const columns = await scoreVersions(items, request);
  const cards = items.map((item, i) => columns.map((scored, c) => {
    const { result, model } = scored[i];
    return resultCard(item, withoutOnlyAspect(result), model, cardTitle(items, i, columns, c));
  }));
  // A row for each response; without a second version, the responses are the row.
  const rows = columns.length > 1 ? cards : [cards.flat()];
  fill(output, el('h2', {}, 'Result'), legend(), rows.map((row) => el('div', { class: 'columns' }, row)), snippets(items, request, page));
  output.scrollIntoView({ block: 'nearest' });
  announce(columns.flatMap((scored) => scored.map(({ result }) => `${result.compliant ? 'Compliant' : 'Violation'}, reward ${decimals(result.reward)}.`)).join(' '));
}

/** A model with a single rule has the aspect default, which says nothing. */
function withoutOnlyAspect(result) {
  if (Object.keys(result.aspects ?? {}).length > 1) return result;
  const { aspects, ...rest } = result;
  return { ...rest, instances: result.instances?.map(({ aspects: _, ...instance }) => instance) };
}

function cardTitle(items, i, columns, c) {
  const response = items.length > 1 ? `Response ${i + 1}` : 'Response';
  return columns.length > 1 ? `${response}, ${c === 0 ? 'first' : 'second'} version` : response;
}

async function showList(output, items, request, name) {
  const progress = el('progress', { max: 1, value: 0, aria: { label: 'Scored responses' } });
  fill(output, el('h2', {}, `${plural(items.length, 'response')} of ${name}`), progress);
  let columns;
  try {
    columns = await scoreVersions(items, request, (n, of) => { progress.value = n / of; });
  } finally {
    progress.remove();
  }
  add(output, resultList(items, columns.map((scored) => scored.map((s) => ({ ...s, result: withoutOnlyAspect(s.result) })))));
  announce(`${plural(items.length, 'response')} scored.`);
}

/** The request as curl and Python, to copy. */
function snippets(items, { versions: [model], options }, page) {
  const request = { responses: items, ...(model && { model }), options };
  const size = items.reduce((sum, item) => sum + (item.response?.length ?? 0), 0);
  if (size > 100_000) return message('info', 'The request is too large to copy as a command.');
  return el('details', { class: 'snippets' }, el('summary', {}, 'This request as curl or Python'),
    snippet('curl', curl(request, Boolean(page.user.csrf))), snippet('Python', python(request)));
}

function snippet(name, text) {
  const code = el('pre', { tabIndex: 0, role: 'region', aria: { label: name } }, text);
  return el('div', {}, el('div', { class: 'actions' }, el('h3', {}, name), button(`Copy as ${name}`, async () => {
    try {
      await navigator.clipboard.writeText(text);
      announce('Copied.');
    } catch { // only over TLS and on this machine
      window.getSelection().selectAllChildren(code);
      announce('The text is selected. Press Ctrl+C to copy it.');
    }
  })), code);
}
