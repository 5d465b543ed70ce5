// Elements of the page. Texts become text nodes, never HTML.

/**
 * Makes an element. properties are set as properties, but for: class; data, aria
 * (objects); on (an object of listeners); style (an object, set through the CSSOM,
 * which the Content-Security-Policy allows); any name with a hyphen, role, for,
 * colspan, scope and list, which are attributes. Children are nodes, texts, or
 * lists of these; null, undefined and false are skipped.
 */
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key === 'class') element.className = value;
    else if (key === 'data') Object.assign(element.dataset, value);
    else if (key === 'aria') for (const [aria, v] of Object.entries(value)) element.setAttribute(`aria-${aria}`, v);
    else if (key === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (key === 'style') for (const [rule, v] of Object.entries(value)) element.style.setProperty(rule, v);
    else if (key.includes('-') || attributes.has(key)) element.setAttribute(key, value);
    else element[key] = value;
  }
  add(element, children);
  return element;
}

const attributes = new Set(['role', 'for', 'colspan', 'scope', 'list']);

/** Appends children as el does. */
export function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child);
  }
  return parent;
}

/** Replaces the content of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return add(parent, children);
}

const svgSpace = 'http://www.w3.org/2000/svg';

/** Makes an SVG element with attributes. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(svgSpace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return add(element, children);
}

/** Makes a button of type button. */
export function button(label, click, properties = {}) {
  return el('button', { type: 'button', ...properties, on: { click } }, label);
}

let ids = 0;

/** Returns an id that no other element has. */
export const newId = (prefix = 'e') => `${prefix}-${++ids}`;

/** Makes a labeled form control: a <p> with the label, the control and a hint. */
export function field(label, control, hint) {
  control.id ||= newId('field');
  const note = hint && el('span', { class: 'hint', id: newId('hint') }, hint);
  if (note) control.setAttribute('aria-describedby', note.id);
  return el('p', { class: 'field' }, el('label', { for: control.id }, label), control, note);
}

/** Makes a table in a box that scrolls sideways. rows are lists of cells. */
export function table(caption, head, rows, properties = {}) {
  return el('div', { class: 'scroll', role: 'region', tabIndex: 0, aria: { label: caption } },
    el('table', properties,
      el('caption', {}, caption),
      el('thead', {}, el('tr', {}, head.map((cell) => el('th', { scope: 'col' }, cell)))),
      el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell, i) => (i === 0 ? el('th', { scope: 'row' }, cell) : el('td', {}, cell))))))));
}

/** Makes a list of names and values, without those that are undefined, null or ''. */
export function facts(entries) {
  return el('dl', { class: 'facts' }, entries
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

/** Makes a message of a kind: 'error', 'warning', 'good' or 'info'. */
export function message(kind, ...children) {
  const names = { error: 'Error: ', warning: 'Warning: ', good: '', info: '' };
  return el('p', { class: `message ${kind}` }, el('strong', {}, names[kind]), children);
}

/** Says something to users of a screen reader. */
export function announce(words) {
  document.getElementById('announcer').textContent = words;
}

/** Asks a question in a modal dialog; returns a promise of the form's data, or of null. */
export function ask(title, content, action) {
  const heading = el('h2', { id: newId('dialog') }, title);
  const form = el('form', { method: 'dialog' }, heading, content,
    el('div', { class: 'actions' },
      button('Cancel', () => dialog.close()),
      el('button', { type: 'submit', class: 'primary' }, action)));
  const dialog = el('dialog', { aria: { labelledby: heading.id } }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = null;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      answer = new FormData(form);
      dialog.close();
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(answer);
    });
    dialog.showModal();
  });
}
