// The loss over the steps of a training run, as a small line chart.
import { el, svg } from './elements.js';
import { decimals, plural } from './format.js';

const width = 600;
const height = 160;
const margin = { left: 50, right: 10, top: 10, bottom: 25 };

/** Draws points {step, steps, loss, epoch}; null for fewer than two. */
export function lossCurve(points) {
  const known = points.filter((p) => p && p.step > 0 && Number.isFinite(p.loss)).sort((a, b) => a.step - b.step);
  if (known.length < 2) return null;
  const last = known.at(-1);
  const losses = known.map((p) => p.loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const x = (step) => margin.left + (step / Math.max(last.steps, last.step)) * (width - margin.left - margin.right);
  const y = (loss) => margin.top + (high === low ? 0.5 : (high - loss) / (high - low)) * (height - margin.top - margin.bottom);
  const words = `The loss changes from ${decimals(known[0].loss)} to ${decimals(last.loss)} in ${plural(last.step, 'step')}.`;
  return el('figure', { class: 'curve' },
    svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words },
      svg('line', { x1: margin.left, x2: width - margin.right, y1: height - margin.bottom, y2: height - margin.bottom, class: 'axis' }),
      svg('line', { x1: margin.left, x2: margin.left, y1: margin.top, y2: height - margin.bottom, class: 'axis' }),
      svg('text', { x: margin.left - 6, y: margin.top + 10, 'text-anchor': 'end' }, decimals(high, 2)),
      svg('text', { x: margin.left - 6, y: height - margin.bottom, 'text-anchor': 'end' }, decimals(low, 2)),
      svg('text', { x: margin.left, y: height - 8 }, 'step 0'),
      svg('text', { x: width - margin.right, y: height - 8, 'text-anchor': 'end' }, `step ${Math.max(last.steps, last.step)}`),
      svg('polyline', { points: known.map((p) => `${x(p.step).toFixed(1)},${y(p.loss).toFixed(1)}`).join(' '), class: 'line' }),
      known.map((p) => svg('circle', { cx: x(p.step), cy: y(p.loss), r: 3, class: 'point' }, svg('title', {}, `epoch ${p.epoch}, step ${p.step}: loss ${decimals(p.loss)}`)))),
    el('figcaption', { class: 'hint' }, words));
}
