// Line charts, drawn by uPlot. A chart has a text that says what it shows, since a
// canvas says nothing to a screen reader.
import { address } from './api.js';
import { el } from './elements.js';

let library; // a promise of uPlot, which is not a module

function load() {
  library ??= new Promise((resolve, reject) => {
    const script = el('script', { src: address('console/vendor/uPlot.iife.min.js') });
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => reject(new Error('The charts cannot be loaded.'));
    document.head.append(el('link', { rel: 'stylesheet', href: address('console/vendor/uPlot.min.css') }), script);
  });
  return library;
}

// The distances between ticks of an axis that counts.
const wholeSteps = Array.from({ length: 10 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

// Lines differ in color and in their dashes.
const strokes = [['--link', []], ['--bad', [8, 4]], ['--good', [2, 3]], ['--warn', [12, 3, 2, 3]], ['--quiet', [4, 8]]];

/** The color of a custom property, as a canvas needs it. */
function color(name) {
  const probe = el('span', { hidden: true, style: { color: `var(${name})` } });
  document.body.append(probe);
  const { color: found } = getComputedStyle(probe);
  probe.remove();
  return found;
}

/**
 * Makes a chart: {element, draw}. names are the names of the lines. draw(x, lines,
 * words) replaces the data: x is ascending (seconds since 1970 if time is set), each
 * line has a value or null for each x, and words describe the chart. range is [low,
 * high] of the y axis; by default it follows the data. level draws a horizontal line
 * of a name.
 */
export function lineChart({ title, names, time = false, range, signal, height = 180 }) {
  const canvas = el('div', { class: 'chart', role: 'img', aria: { label: title } });
  const caption = el('figcaption', { class: 'hint' });
  const element = el('figure', {}, el('h3', {}, title), canvas, caption);
  let chart;
  let data = [[], ...names.map(() => [])];
  const build = async () => {
    const UPlot = await load();
    if (signal.aborted) return;
    chart?.destroy();
    const axis = { stroke: color('--quiet'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 }, font: '12px system-ui' };
    chart = new UPlot({
      width: Math.max(200, canvas.clientWidth), height,
      scales: { x: { time }, y: range ? { range } : {} },
      axes: [time ? axis : { ...axis, incrs: wholeSteps }, { ...axis, size: 56 }],
      series: [{ label: time ? 'Time' : 'x' }, ...names.map((label, i) => {
        const [stroke, dash] = strokes[i % strokes.length];
        return { label, stroke: color(stroke), dash, width: 2, spanGaps: false };
      })],
      legend: { live: false }, cursor: { drag: { x: false, y: false } },
    }, data, canvas);
  };
  const resize = new ResizeObserver(() => chart?.setSize({ width: Math.max(200, canvas.clientWidth), height }));
  resize.observe(canvas);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', build, { signal });
  signal.addEventListener('abort', () => {
    resize.disconnect();
    chart?.destroy();
  });
  const ready = build().catch((error) => { caption.textContent = error.message; });
  return {
    element,
    async draw(x, lines, words) {
      data = [x, ...lines];
      await ready;
      caption.textContent = words;
      canvas.setAttribute('aria-label', `${title}. ${words}`);
      chart?.setData(data);
    },
  };
}
