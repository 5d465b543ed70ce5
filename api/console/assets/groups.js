// The page Groups.
import { add, el } from './elements.js';

export function show(view) {
  add(view, el('p', {}, 'This page is empty so far.'));
}
