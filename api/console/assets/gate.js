// The report of the gate in words.
import { add, el, table } from './elements.js';
import { count, decimals, percent } from './format.js';

const metricNames = {
  bag_auroc: 'AUROC', avg_acc: 'balanced accuracy', f1_violation: 'F1 of violations', bag_auprc: 'average precision',
};
const metric = (name) => metricNames[name] ?? name;
const signed = (value) => `${value < 0 ? '−' : '+'}${decimals(Math.abs(value))}`;

/** Describes why the gate promoted or rejected a candidate; null without a report. */
export function gateReport(report) {
  if (!report) return null;
  const box = el('div', {}, el('h3', {}, 'Gate'),
    el('p', {}, report.promote
      ? [el('strong', { class: 'good-text' }, '✓ Passed. '), `The candidate is shown to be not worse than ${report.current}${report.better ? ', and better than the best version so far' : ''}.`]
      : [el('strong', { class: 'bad-text' }, '✕ Rejected. '), `${report.current} continues to serve, because:`]),
    list(report.reasons),
    comparisons(report),
    shiftWords(report.shift),
    report.notes?.length > 0 && [el('p', {}, 'Further findings, which did not affect the decision:'), list(report.notes)]);
  for (const [name, aspect] of Object.entries(report.aspects ?? {})) {
    add(box, el('h4', {}, `Aspect ${name}`), !aspect.judged && el('p', {}, 'It has too few held-out labels to be judged on them.'),
      list(aspect.reasons), comparisons(aspect), shiftWords(aspect.shift));
  }
  return box;
}

const list = (sentences) => sentences?.length > 0 && el('ul', {}, sentences.map((s) => el('li', {}, s)));

function comparisons(report) {
  const sets = [
    ['On the held-out labels', report.holdout], ['On the regression set', report.regression],
    ['On the held-out labels, against the best version so far', report.holdout_anchor],
    ['On the regression set, against the version that it came with', report.regression_anchor],
  ].filter(([, c]) => c);
  if (sets.length === 0) return null;
  return [
    el('p', {}, 'The comparisons:'),
    el('ul', {}, sets.map(([where, c]) => el('li', {}, sentence(where, c)))),
    table('Metrics of the candidate', ['Set', 'Metric', 'Compared version', 'Candidate', 'Difference'], sets.flatMap(([where, c]) =>
      Object.entries(c.metrics ?? {}).map(([name, pair]) => [where, metric(name), decimals(pair.current), decimals(pair.candidate), signed(pair.candidate - pair.current)]))),
  ];
}

function sentence(where, c) {
  return `${where} (${count(c.bags)} responses, ${count(c.violations)} violations), its ${metric(c.metric)} is ${decimals(c.candidate)}; that of ${c.against} is ${decimals(c.current)}. `
    + `The difference is ${signed(c.difference)}, and with ${percent(c.coverage)} confidence between ${signed(c.interval[0])} and ${signed(c.interval[1])}. `
    + `The lower end must be at least ${signed(-c.margin)}: ${c.passed ? 'passed' : 'not passed'}.`;
}

function shiftWords(shift) {
  if (!shift) return null;
  const change = (shift.after ?? shift.before).mean_change;
  return el('p', {}, `On ${count(shift.bags)} probe responses, the reward changes by ${decimals(change)} on average${shift.after ? ' after calibration' : ''} (limit ${decimals(shift.limit)}`
    + `${shift.exceeded ? ', exceeded' : ''}), and ${count(shift.flips)} verdicts change (${percent(shift.flip_rate, 1)}).`);
}
