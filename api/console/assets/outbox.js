// Labels and withdrawals on their way to the service. They are sent one at a time and
// in order, so that each has its own outcome and a correction follows what it
// corrects. What could not be sent stays here and is sent again: the service counts a
// label that it has already as a duplicate, so none is lost and none counts twice, and
// withdrawing a label again changes nothing.
import { post, remove } from './api.js';

const longestDelay = 10_000; // milliseconds

/** Outcomes of a label, as entry.state. Those of a withdrawal are accepted and rejected. */
export const states = { waiting: 'waiting', accepted: 'accepted', duplicate: 'duplicate', rejected: 'rejected' };

/** Whether the service has the label of an entry. */
export const stored = (entry) => entry.state === states.accepted || entry.state === states.duplicate;

/** The labels that this page has given, until it is closed. */
export class Outbox {
  #pending = [];
  #listeners = new Set();
  #running = false;
  #wake;
  counts = { accepted: 0, duplicate: 0, rejected: 0, withdrawn: 0 };
  problem = ''; // why labels are waiting; '' while they are being sent

  /** The number of labels and withdrawals that the service has not acknowledged. */
  get waiting() {
    return this.#pending.length;
  }

  /** Calls changed after each change, until signal aborts. */
  watch(changed, signal) {
    this.#listeners.add(changed);
    signal.addEventListener('abort', () => this.#listeners.delete(changed));
  }

  /** Sends an item of POST /v1/feedback. The returned entry is {item, state, message, attempts}. */
  add(item) {
    const entry = { item, state: states.waiting, message: '', attempts: 0 };
    this.#pending.push(entry);
    this.#changed();
    this.#run();
    return entry;
  }

  /** Withdraws the label of an entry: one that was not sent yet never is. */
  withdraw(entry) {
    if (entry.state === states.rejected) return;
    const at = this.#pending.indexOf(entry);
    if (at >= 0 && entry.attempts === 0) this.#pending.splice(at, 1);
    else this.#pending.push({ item: entry.item, withdraws: true, state: states.waiting, message: '', attempts: 0 });
    this.#changed();
    this.#run();
  }

  /** Tries again now, as after signing in. */
  retry() {
    this.#wake?.();
  }

  async #run() {
    if (this.#running) return;
    this.#running = true;
    for (let delay = 500; this.#pending.length > 0;) {
      const entry = this.#pending[0];
      try {
        await this.#send(entry);
        delay = 500;
      } catch (error) {
        if (permanent(error)) {
          this.#settle(entry, states.rejected, error.message);
          continue;
        }
        this.problem = error.message;
        this.#changed();
        await this.#pause(Math.max(delay, 1000 * (error.retryAfter ?? 0)));
        delay = Math.min(2 * delay, longestDelay);
      }
    }
    this.#running = false;
  }

  async #send(entry) {
    entry.attempts++;
    if (entry.withdraws) {
      const { id, rater } = entry.item;
      const { records } = await remove(`v1/feedback/${encodeURIComponent(id)}/labels?rater=${encodeURIComponent(rater)}`);
      this.problem = '';
      this.counts.withdrawn += records;
      this.#settle(entry, states.accepted);
      return;
    }
    const receipt = await post('v1/feedback', { items: [entry.item] });
    this.problem = '';
    const rejection = receipt.rejected[0];
    if (rejection) this.#settle(entry, states.rejected, rejection.message);
    // An earlier attempt may have arrived whose response was lost.
    else if (receipt.duplicates > 0 && entry.attempts === 1) this.#settle(entry, states.duplicate, 'The service has this label already.');
    else this.#settle(entry, states.accepted);
  }

  #settle(entry, state, message = '') {
    this.#pending.shift();
    Object.assign(entry, { state, message });
    if (!entry.withdraws) this.counts[state]++;
    this.#changed();
  }

  #pause(milliseconds) {
    return new Promise((resume) => {
      const timer = setTimeout(resume, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resume();
      };
    });
  }

  #changed() {
    for (const changed of this.#listeners) changed();
  }
}

/** Whether sending again cannot help. Without a token or permission, it does once the user has signed in again. */
function permanent(error) {
  return error.status >= 400 && error.status < 500 && ![401, 403, 408, 429, 499].includes(error.status);
}
