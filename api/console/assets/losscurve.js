// The loss over the steps of a training run, as a small line chart. The stages of an
// epoch have losses of their own, so that each is a line.
import { el, svg } from './elements.js';
import { decimals, plural } from './format.js';

const width = 600;
const height = 180;
const margin = { left: 50, right: 110, top: 10, bottom: 25 };

/** Draws points {step, steps, stage, epoch, loss}; null for fewer than two of a stage. */
export function lossCurve(points) {
  const stages = Map.groupBy(distinct(points), (p) => p.stage);
  const lines = [...stages].filter(([, line]) => line.length > 1);
  if (lines.length === 0) return null;
  const all = lines.flatMap(([, line]) => line);
  const steps = Math.max(...all.map((p) => Math.max(p.steps, p.step)));
  const losses = all.map((p) => p.loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const [right, bottom] = [width - margin.right, height - margin.bottom];
  const x = (step) => margin.left + (step / steps) * (right - margin.left);
  const y = (loss) => margin.top + (high === low ? 0.5 : (high - loss) / (high - low)) * (bottom - margin.top);
  const words = lines.map(([stage, line]) => `Stage ${stage}: the loss changes from ${decimals(line[0].loss)} to ${decimals(line.at(-1).loss)} by ${plural(line.at(-1).step, 'step')}.`).join(' ');
  return el('figure', { class: 'curve' },
    svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words },
      svg('line', { x1: margin.left, x2: right, y1: bottom, y2: bottom, class: 'axis' }),
      svg('line', { x1: margin.left, x2: margin.left, y1: margin.top, y2: bottom, class: 'axis' }),
      svg('text', { x: margin.left - 6, y: margin.top + 10, 'text-anchor': 'end' }, decimals(high, 2)),
      svg('text', { x: margin.left - 6, y: bottom, 'text-anchor': 'end' }, decimals(low, 2)),
      svg('text', { x: margin.left, y: height - 8 }, 'step 0'),
      svg('text', { x: right, y: height - 8, 'text-anchor': 'end' }, `step ${steps}`),
      lines.map(([stage, line], i) => [
        svg('polyline', { points: line.map((p) => `${x(p.step).toFixed(1)},${y(p.loss).toFixed(1)}`).join(' '), class: 'line', ...(i > 0 && { 'stroke-dasharray': `${8 / i} ${4 / i}` }) }),
        line.map((p) => svg('circle', { cx: x(p.step), cy: y(p.loss), r: 3, class: 'point' }, svg('title', {}, `epoch ${p.epoch}, step ${p.step}: loss ${decimals(p.loss)}`))),
        svg('text', { x: x(line.at(-1).step) + 8, y: Math.min(y(line.at(-1).loss) + 4, bottom - 2) }, stage),
      ])),
    el('figcaption', { class: 'hint' }, words));
}

/** The points in the order of their steps, each once. */
function distinct(points) {
  const known = new Map();
  for (const p of points) {
    if (p && p.step > 0 && Number.isFinite(p.loss)) known.set(`${p.stage} ${p.step}`, p);
  }
  return [...known.values()].sort((a, b) => a.step - b.step);
}
