// The loss over the steps of a training run.
import { lineChart } from './charts.js';
import { decimals, plural } from './format.js';

/** Draws points {step, loss}; null for fewer than two. */
export function lossCurve(points) {
  const known = points.filter((p) => p && p.step > 0 && Number.isFinite(p.loss)).sort((a, b) => a.step - b.step);
  if (known.length < 2) return null;
  const chart = lineChart({ title: 'Loss', names: ['loss'], height: 160 });
  const [first, last] = [known[0], known.at(-1)];
  chart.draw(known.map((p) => p.step), [known.map((p) => p.loss)],
    `The loss changes from ${decimals(first.loss)} to ${decimals(last.loss)} in ${plural(last.step, 'step')}.`);
  return chart.element;
}
