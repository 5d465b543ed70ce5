// Import of labels from other tools, and export of candidates to them.
import { get, post } from './api.js';
import { fromRecords, isRecords, toRecord } from './argilla.js';
import { announce, ask, button, el, field, message } from './elements.js';
import { plural } from './format.js';
import { importedItem } from './labelitems.js';
import { fromTasks, isTasks, toTask } from './labelstudio.js';

const maxFile = 64 << 20; // bytes
const batch = 500; // items per request
const exported = 1000; // candidates, the most that the service returns

/** Reads a file of Argilla or Label Studio: {tool, labels}. Throws an Error that names the problem. */
export function readLabels(text, name) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is not JSON (${error.message}). Export JSON from Argilla (records.to_json) or Label Studio (JSON).`);
  }
  if (isRecords(value)) return { tool: 'Argilla', labels: fromRecords(value) };
  if (isTasks(value)) return { tool: 'Label Studio', labels: fromTasks(value) };
  throw new Error(`${name} has neither records of Argilla (objects with "fields") nor tasks of Label Studio (objects with "data").`);
}

/** The panel with the buttons. labels() returns [{candidate, label, rater}] of this page. */
export function filesPanel({ labels, report, done }) {
  const file = el('input', { type: 'file', accept: '.json,application/json' });
  const status = el('div', { role: 'status' });
  file.addEventListener('change', async () => {
    const chosen = file.files[0];
    if (!chosen) return;
    try {
      status.replaceChildren();
      await importFile(chosen, status);
      report();
      done();
    } catch (error) {
      report(error);
    }
    file.value = '';
  });
  const save = (name, convert) => async () => {
    try {
      const { candidates } = await get(`v1/feedback/candidates?n=${exported}`);
      const given = labels();
      const known = new Set(given.map((g) => g.candidate.id));
      const all = [...given, ...candidates.filter((c) => !known.has(c.id)).map((candidate) => ({ candidate }))];
      download(name, JSON.stringify(all.map(({ candidate, label, rater }) => convert(candidate, label && { label, rater })), null, 1));
      announce(`Exported ${plural(all.length, 'response')}.`);
      report();
    } catch (error) {
      report(error);
    }
  };
  return el('details', { class: 'card' },
    el('summary', {}, 'Argilla and Label Studio'),
    el('p', { class: 'hint' }, 'Export the candidates, with the verdict of the model as a suggestion and the labels of this page, to label them elsewhere. Import what was labeled there. The files are read and written by this page; they contain the texts.'),
    el('div', { class: 'actions' },
      button('Export for Argilla', save('assay-argilla.json', toRecord)),
      button('Export for Label Studio', save('assay-label-studio.json', toTask))),
    field('Import labels', file, 'A JSON file of Argilla (records.to_json) or Label Studio (JSON).'),
    status);
}

function download(name, content) {
  const url = URL.createObjectURL(new Blob([content], { type: 'application/json' }));
  const link = el('a', { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function importFile(file, status) {
  if (file.size > maxFile) throw new Error(`${file.name} has ${file.size} bytes; the console reads up to ${maxFile}. Use assay feedback send for larger files.`);
  const { tool, labels } = readLabels(await file.text(), file.name);
  if (labels.length === 0) throw new Error(`${file.name} has no labels: no record of ${tool} has a submitted response.`);
  const choice = await choose(tool, labels);
  if (!choice) return;
  const items = labels
    .filter((l) => l.question === choice.question)
    .flatMap((l) => (choice.values[text(l.value)] ? [importedItem(l, choice, choice.values[text(l.value)])] : []));
  const receipt = await sendAll(items);
  status.append(outcome(file.name, items, receipt));
  announce(`Imported ${plural(receipt.accepted, 'label')}.`);
}

const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
const labelNames = ['compliant', 'violation'];

/** Asks which question has the labels, what its values mean, and which fields have the text. */
async function choose(tool, labels) {
  const questions = [...new Set(labels.map((l) => l.question))];
  const names = [...new Set(labels.flatMap((l) => Object.keys(l.fields).filter((f) => typeof l.fields[f] === 'string')))];
  const preferred = (wanted, fallback) => wanted.find((name) => names.includes(name)) ?? fallback;
  const options = (list, chosen) => list.map((name) => el('option', { value: name, selected: name === chosen }, name));
  const question = el('select', { name: 'question' }, options(questions, questions.includes('label') ? 'label' : questions[0]));
  const values = el('div');
  const showValues = () => values.replaceChildren(...[...new Set(labels.filter((l) => l.question === question.value).map((l) => text(l.value)))].slice(0, 20)
    .map((value) => field(`Value ${value}`, el('select', { name: `value:${value}` },
      el('option', { value: '' }, 'ignore'), options(labelNames, labelNames.find((n) => n === value.toLowerCase()))))));
  question.addEventListener('change', showValues);
  showValues();
  const answer = await ask(`Import labels of ${tool}`, [
    field('Question', question),
    values,
    field('Field of the response', el('select', { name: 'response' }, options(names, preferred(['response', 'text', 'completion'], names.at(-1))))),
    field('Field of the prompt', el('select', { name: 'prompt' }, el('option', { value: '' }, 'none'), options(names, preferred(['prompt', 'instruction'], '')))),
    field('Aspect', el('input', { name: 'aspect', autocomplete: 'off' }), 'Empty: a label of the whole response.'),
  ], 'Import');
  if (!answer) return null;
  const chosen = {};
  for (const [name, value] of answer) if (name.startsWith('value:')) chosen[name.slice('value:'.length)] = value;
  return { question: answer.get('question'), values: chosen, response: answer.get('response'), prompt: answer.get('prompt'), aspect: answer.get('aspect').trim() };
}

/** Sends items in batches. A batch that fails may be imported again: what is stored counts as a duplicate. */
async function sendAll(items) {
  const total = { accepted: 0, duplicates: 0, rejected: [] };
  for (let at = 0; at < items.length; at += batch) {
    let receipt;
    try {
      receipt = await post('v1/feedback', { items: items.slice(at, at + batch) });
    } catch (error) {
      error.message += ` Of ${plural(items.length, 'label')}, ${total.accepted} were accepted before; import the file again for the others.`;
      throw error;
    }
    total.accepted += receipt.accepted;
    total.duplicates += receipt.duplicates;
    total.rejected.push(...receipt.rejected);
  }
  return total;
}

function outcome(name, items, receipt) {
  const shown = receipt.rejected.slice(0, 10);
  return message(receipt.rejected.length > 0 ? 'warning' : 'good',
    `${name}: ${plural(items.length, 'label')} sent, ${receipt.accepted} accepted, ${receipt.duplicates} known already, ${receipt.rejected.length} rejected.`,
    shown.length > 0 && el('ul', {}, shown.map((r) => el('li', {}, `${r.id}: ${r.message}`))));
}
