// The scored responses as they pass: what the service holds, and then each new one.
import { follow } from './api.js';

const held = 5000; // as many as the service holds

/**
 * Follows GET /v1/scored until signal aborts. changed() is called at most once per
 * interval (milliseconds), however many responses arrive. While paused, responses
 * are collected and changed is not called.
 */
export class ScoredLog {
  #paused = false;
  #due = false;
  #waits = false;
  responses = []; // the oldest first
  connection = 'connecting'; // open, lost, or why the stream ended
  counts = { scored: 0, skipped: 0 };
  texts = false;
  known = false; // the service has reported its counts

  constructor(changed, interval, signal) {
    this.changed = changed;
    this.interval = interval;
    this.signal = signal;
    follow('v1/scored', {
      scored: (body) => this.#add(body),
      failed: (body) => this.#set(body.error?.message ?? 'The stream ended.'),
      state: (state) => this.#set(state),
    }, signal);
  }

  get paused() {
    return this.#paused;
  }

  set paused(paused) {
    this.#paused = paused;
    if (!paused && this.#due) this.#announce();
  }

  #add({ responses, scored, skipped, texts }) {
    for (const r of responses) {
      r.at = Date.parse(r.time);
      this.responses.push(r);
    }
    if (this.responses.length > held) this.responses.splice(0, this.responses.length - held);
    Object.assign(this, { counts: { scored, skipped }, texts, known: true });
    this.#announce();
  }

  #set(connection) {
    this.connection = connection;
    this.#announce();
  }

  // The first change is shown soon, and those that follow it within the interval once.
  #announce() {
    this.#due = true;
    if (this.#waits || this.#paused) return;
    this.#waits = true;
    const run = () => {
      this.#waits = false;
      if (this.signal.aborted || this.#paused || !this.#due) return;
      this.#due = false;
      this.changed();
    };
    setTimeout(run, this.interval);
  }
}
