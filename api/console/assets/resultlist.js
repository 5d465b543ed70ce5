// A list of scored responses, a page at a time, from which one is opened.
import { button, el, field, fill, table } from './elements.js';
import { count, decimals, percent } from './format.js';
import { excerpt } from './items.js';
import { legend, resultCard, verdict } from './result.js';

const perPage = 50;

/**
 * Lists items with the results of one or two versions. columns[c][i] is {result,
 * model} of items[i].
 */
export function resultList(items, columns) {
  const [first, second] = columns;
  const differs = (i) => second && first[i].result.compliant !== second[i].result.compliant;
  const filters = {
    all: { label: 'all responses', keep: () => true },
    violations: { label: 'violations', keep: (i) => !first[i].result.compliant },
    ...(second && { differs: { label: 'a different verdict', keep: differs } }),
  };
  const state = { filter: 'all', order: 'file', page: 0 };
  const box = el('div');
  const detail = el('div', { id: 'opened' });

  const rows = () => {
    const kept = items.map((_, i) => i).filter(filters[state.filter].keep);
    return state.order === 'file' ? kept : kept.sort((a, b) => first[a].result.reward - first[b].result.reward);
  };
  const open = (i) => {
    fill(detail, el('h2', { tabIndex: -1 }, `Response ${i + 1}`), legend(),
      el('div', { class: 'columns' }, columns.map((scored) => resultCard(items[i], scored[i].result, scored[i].model, items[i].id ?? `Response ${i + 1}`))));
    detail.firstChild.focus();
  };
  const show = () => {
    const all = rows();
    const pages = Math.max(1, Math.ceil(all.length / perPage));
    state.page = Math.min(state.page, pages - 1);
    const shown = all.slice(state.page * perPage, (state.page + 1) * perPage);
    fill(box, table(`${count(all.length)} responses, page ${state.page + 1} of ${pages}`,
      ['Response', 'Verdict', 'Reward', ...(second ? ['Second version', 'Reward'] : []), 'Witness'],
      shown.map((i) => [
        button(items[i].id ?? `${i + 1}`, () => open(i), { aria: { label: `Show response ${items[i].id ?? i + 1}` } }),
        verdict(first[i].result), decimals(first[i].result.reward),
        ...(second ? [el('span', {}, verdict(second[i].result), differs(i) && ' ≠'), decimals(second[i].result.reward)] : []),
        el('bdi', {}, excerpt({ response: first[i].result.witness?.text ?? excerpt(items[i]) })),
      ])),
    el('div', { class: 'actions' },
      button('Previous page', () => { state.page--; show(); }, { disabled: state.page === 0 }),
      button('Next page', () => { state.page++; show(); }, { disabled: state.page + 1 >= pages })));
  };
  const choose = (key, entries) => el('select', { on: { change: (event) => { state[key] = event.target.value; state.page = 0; show(); } } },
    entries.map(([value, label]) => el('option', { value }, label)));
  show();
  const violations = first.filter(({ result }) => !result.compliant).length;
  return el('div', {},
    el('p', {}, `${count(violations)} of ${count(items.length)} (${percent(violations / items.length)}) are violations`,
      second && `, and ${count(items.filter((_, i) => differs(i)).length)} have a different verdict with the second version`, '.'),
    el('div', { class: 'columns' },
      field('Show', choose('filter', Object.entries(filters).map(([value, f]) => [value, f.label]))),
      field('Order', choose('order', [['file', 'as in the file'], ['reward', 'lowest reward first']]))),
    box, detail);
}
