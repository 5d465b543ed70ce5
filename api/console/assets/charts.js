// Line charts of a few dozen points, as SVG. A chart has a text that says what it
// shows, since lines say nothing to a screen reader.
import { el, fill, svg } from './elements.js';

const width = 600;
const margin = { left: 48, right: 12, top: 8, bottom: 22 };

// Seconds between the ticks of an axis of time.
const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/**
 * Makes a chart: {element, draw}. names are the names of the lines. draw(x, lines,
 * words) replaces the data: x is ascending (seconds since 1970 if time is set,
 * otherwise a count such as a step), each line has a value or null for each x, and
 * words describe the chart. range is [low, high] of the y axis; by default it
 * follows the data.
 */
export function lineChart({ title, names, time = false, range, height = 180 }) {
  const canvas = el('div');
  const caption = el('figcaption', { class: 'hint' });
  const element = el('figure', { class: 'curve' }, el('h3', {}, title), canvas, names.length > 1 && legend(names), caption);
  return {
    element,
    draw(x, lines, words) {
      caption.textContent = words;
      fill(canvas, picture(x, lines, { label: `${title}. ${words}`, names, time, range, height }));
    },
  };
}

// Lines differ in color and in their dashes.
const lineClass = (i) => `line line-${i}`;

function legend(names) {
  return el('ul', { class: 'chart-legend' }, names.map((name, i) => el('li', {},
    svg('svg', { viewBox: '0 0 30 10', 'aria-hidden': 'true' }, svg('line', { x1: 0, x2: 30, y1: 5, y2: 5, class: lineClass(i) })), name)));
}

function picture(x, lines, { label, names, time, range, height }) {
  const [left, right] = x.length > 0 ? [x[0], x.at(-1)] : [0, 1];
  const [low, high] = range ?? extent(lines.flat());
  const toX = (v) => margin.left + (right > left ? (v - left) / (right - left) : 0.5) * (width - margin.left - margin.right);
  const toY = (v) => height - margin.bottom - ((v - low) / (high - low)) * (height - margin.top - margin.bottom);
  const bottom = height - margin.bottom;
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label },
    ticks(low, high, decimalStep((high - low) / 4)).map((v) => [
      svg('line', { x1: margin.left, x2: width - margin.right, y1: toY(v), y2: toY(v), class: 'grid' }),
      svg('text', { x: margin.left - 6, y: toY(v) + 4, 'text-anchor': 'end' }, short(v)),
    ]),
    x.length > 0 && ticks(left, right, time ? timeStep((right - left) / 4) : Math.max(1, decimalStep((right - left) / 6))).map((v) => [
      svg('line', { x1: toX(v), x2: toX(v), y1: bottom, y2: bottom + 4, class: 'axis' }),
      svg('text', { x: toX(v), y: height - 5, 'text-anchor': 'middle' }, time ? clock(v, right - left) : short(v)),
    ]),
    svg('line', { x1: margin.left, x2: width - margin.right, y1: bottom, y2: bottom, class: 'axis' }),
    lines.map((values, i) => svg('g', {}, svg('title', {}, names[i]), segments(x, values).map((points) => (points.length === 1
      ? svg('circle', { cx: toX(points[0][0]), cy: toY(points[0][1]), r: 2.5, class: `point point-${i}` })
      : svg('polyline', { points: points.map(([px, py]) => `${toX(px).toFixed(1)},${toY(py).toFixed(1)}`).join(' '), class: lineClass(i) }))))));
}

/** The parts of a line between missing values. */
function segments(x, values) {
  const parts = [[]];
  values.forEach((v, i) => {
    if (Number.isFinite(v)) parts.at(-1).push([x[i], v]);
    else if (parts.at(-1).length > 0) parts.push([]);
  });
  return parts.filter((part) => part.length > 0);
}

/** The range of values, widened so that a constant line has a place. */
function extent(values) {
  const known = values.filter((v) => Number.isFinite(v));
  if (known.length === 0) return [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

/** The smallest of 1, 2 and 5 times a power of ten that is at least distance. */
function decimalStep(distance) {
  const power = 10 ** Math.floor(Math.log10(distance || 1));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= distance * 0.999);
}

const timeStep = (distance) => timeSteps.find((step) => step >= distance) ?? timeSteps.at(-1);

function ticks(low, high, step) {
  const all = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) all.push(n * step + 0); // + 0: not -0
  return all;
}

const short = (v) => v.toLocaleString('en-US', { maximumSignificantDigits: 4, notation: Math.abs(v) >= 1e5 ? 'compact' : 'standard' });

function clock(seconds, span) {
  const style = span < 300 ? { timeStyle: 'medium' } : { timeStyle: 'short' };
  return new Date(seconds * 1000).toLocaleTimeString(undefined, style);
}
