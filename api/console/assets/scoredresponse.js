// One scored response of GET /v1/scored, in full.
import { button, el, facts, newId } from './elements.js';
import { count, decimals, time } from './format.js';
import { verdict } from './result.js';

/** Shows a response in a dialog. */
export function showResponse(r) {
  const heading = el('h2', { id: newId('dialog') }, 'Response ', el('span', { class: 'mono' }, r.id), ' ', verdict(r));
  const dialog = el('dialog', { class: 'wide', aria: { labelledby: heading.id } },
    heading,
    numbers(r),
    r.prompt && [el('h3', {}, 'Prompt'), el('p', { class: 'text', dir: 'auto' }, r.prompt)],
    r.response ? [el('h3', {}, 'Response'), responseText(r)] : el('p', { class: 'hint' }, withoutText),
    el('div', { class: 'actions' }, button('Close', () => dialog.close(), { class: 'primary' })));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export const withoutText = 'The text is not kept. Start the service with --keep-scored to see texts here.';

function numbers(r) {
  return facts([
    ['Reward', `${decimals(r.reward, 4)} (${r.scale})`],
    ['Compliance', decimals(r.compliance, 4)],
    ['Violation', decimals(r.violation, 4)], ['Threshold', decimals(r.threshold, 4)],
    ['Aspect that decides', r.aspect],
    ['Model version', el('span', { class: 'mono' }, r.model)],
    ['Utterances', r.truncated ? `${count(r.utterances)}, the most that are scored: the rest of the response was not read` : count(r.utterances)],
    ['Characters', count(r.characters)],
    ['Received by', r.source], ['Scored', time(r.time)],
    ['Step', r.step], ['Group', r.group],
  ]);
}

/** The text with its witness marked, if the text contains it. */
export function responseText(r) {
  const at = r.witness ? r.response.indexOf(r.witness) : -1;
  const box = el('p', { class: 'text', dir: 'auto' });
  if (at < 0) {
    box.append(r.response);
  } else {
    box.append(r.response.slice(0, at), el('mark', { class: 'utterance witness', title: 'The witness: the utterance with the largest violation' }, r.witness), r.response.slice(at + r.witness.length));
  }
  if ([...r.response].length < r.characters) box.append(el('span', { class: 'hint' }, '… (the rest is not kept)'));
  return box;
}
