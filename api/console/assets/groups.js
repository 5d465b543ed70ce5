// The page Groups: responses to the same prompt side by side, as a trainer that
// compares them (GRPO, RLOO) sees them.
import { lineChart } from './charts.js';
import { add, announce, button, el, facts, field, fill, message, table } from './elements.js';
import { count, decimals, percent, plural } from './format.js';
import { verdict } from './result.js';
import { ScoredLog } from './scoredlog.js';
import { responseText, showResponse, withoutText } from './scoredresponse.js';
import { deviation, groupBy, mean } from './statistics.js';
import { witnessPhrases } from './witnessphrases.js';

const interval = 1000; // milliseconds between two updates
const shownGroups = 30;
const shownMembers = 16;
const shownPhrases = 20;
const hour = 3_600_000;

export function show(view, page) {
  const groups = new Groups();
  add(view, groups.elements());
  groups.log = new ScoredLog(() => groups.draw(), interval, page.signal);
  groups.draw();
}

class Groups {
  constructor() {
    this.steps = lineChart({ title: 'Mean reward over the steps of training', names: ['mean reward', 'mean deviation in a group'] });
    this.parts = Object.fromEntries(['state', 'steps', 'list', 'members', 'phrases'].map((name) => [name, el('div')]));
    this.order = el('select', { on: { change: () => this.draw() } },
      [['recent', 'most recent first'], ['spread', 'largest spread first'], ['flat', 'smallest spread first'], ['low', 'lowest mean first']].map(([value, label]) => el('option', { value }, label)));
    this.pause = button('Pause', () => this.togglePause(), { aria: { pressed: 'false' } });
  }

  elements() {
    return [
      el('p', {}, 'Responses to the same prompt, as policy optimization compares them. The ', el('dfn', {}, 'advantage'), ' of a response is its reward minus the mean of its group; trainers often divide it by the standard deviation of the group. A group whose rewards are all equal teaches nothing.'),
      el('div', { class: 'columns' }, field('Order', this.order)),
      el('div', { class: 'actions' }, this.pause),
      this.parts.state, this.parts.list, this.parts.members,
      el('h2', {}, 'Steps'), this.parts.steps, this.steps.element,
      el('h2', {}, 'Witness phrases of the last hour'), this.parts.phrases,
    ];
  }

  togglePause() {
    this.log.paused = !this.log.paused;
    this.pause.textContent = this.log.paused ? 'Continue' : 'Pause';
    this.pause.setAttribute('aria-pressed', String(this.log.paused));
    announce(this.log.paused ? 'Paused. New responses are collected.' : 'Continued.');
  }

  draw() {
    const { connection, counts, responses } = this.log;
    const groups = groupsOf(responses);
    fill(this.parts.state,
      !['connecting', 'open'].includes(connection) && message('warning', connection === 'lost' ? 'The connection is lost. The page reconnects by itself.' : connection),
      el('p', { class: 'hint' }, `${plural(groups.length, 'group')} of at least two responses, among the last ${plural(responses.length, 'response')}.`,
        counts.skipped > 0 ? ' The service was busy and recorded a sample of whole requests.' : ''));
    this.showList(groups);
    this.showMembers(groups);
    this.showSteps(responses, groups);
    this.showPhrases(responses);
  }

  showList(groups) {
    const focused = document.activeElement?.dataset.group;
    const shown = groups.toSorted(orders[this.order.value]).slice(0, shownGroups);
    fill(this.parts.list, groups.length === 0
      ? el('p', {}, 'There is no group yet. Send several responses to one prompt, with ', el('code', {}, 'prompt'), ' or with the same ', el('code', {}, 'metadata.group'), '.')
      : table(`Groups (${Math.min(shownGroups, groups.length)} of ${groups.length})`, ['Prompt', 'Step', 'Responses', 'Mean reward', 'Standard deviation', 'Lowest', 'Highest', 'Violations'], shown.map((g) => [
        button(g.title, () => this.choose(g), { class: 'link', data: { group: g.key }, aria: { pressed: String(g.key === this.chosen) } }),
        g.step ?? '', count(g.members.length), decimals(g.mean), spread(g), decimals(g.low), decimals(g.high), count(g.violations),
      ])));
    if (focused) this.parts.list.querySelector(`[data-group="${CSS.escape(focused)}"]`)?.focus();
  }

  choose(group) {
    this.chosen = group.key;
    this.draw();
    this.parts.members.querySelector('h2')?.scrollIntoView({ block: 'nearest' });
    announce(`${plural(group.members.length, 'response')} of the group are shown below the table.`);
  }

  showMembers(groups) {
    const group = groups.find((g) => g.key === this.chosen);
    if (group?.key === this.drawn?.key && group?.members.length === this.drawn?.members.length) return; // as it was: a reader keeps the place
    this.drawn = group;
    if (!group) return fill(this.parts.members);
    const ranked = group.members.toSorted((a, b) => b.value - a.value);
    return fill(this.parts.members,
      el('h2', {}, `Group: ${group.title}`),
      group.prompt && el('p', { class: 'text', dir: 'auto' }, group.prompt),
      facts([['Mean reward', `${decimals(group.mean)} (${group.scale})`], ['Standard deviation (of n-1)', spread(group)], ['Step', group.step]]),
      el('div', { class: 'columns' }, ranked.slice(0, shownMembers).map((m) => member(m, group))),
      ranked.length > shownMembers && el('p', { class: 'hint' }, `${shownMembers} of ${ranked.length} responses are shown, the highest rewards first.`));
  }

  showSteps(responses, groups) {
    const byStep = [...groupBy(responses.filter((r) => r.step !== undefined), (r) => r.step)].sort((a, b) => a[0] - b[0]);
    this.steps.element.hidden = byStep.length < 2;
    fill(this.parts.steps, byStep.length < 2 && el('p', { class: 'hint' }, 'A trainer that sends ', el('code', {}, '"metadata": {"step": 12}'), ' with each response gets a curve here, once two steps are held.'));
    if (byStep.length < 2) return;
    const means = byStep.map(([, all]) => mean(all.map((r) => r.compliance)));
    const spreads = byStep.map(([step]) => {
      const of = groups.filter((g) => g.step === step).map((g) => deviation(g.members.map((m) => m.response.compliance)));
      return of.length > 0 ? mean(of) : null;
    });
    this.steps.draw(byStep.map(([step]) => step), [means, spreads],
      `From step ${byStep[0][0]} to ${byStep.at(-1)[0]} the mean reward changes from ${decimals(means[0])} to ${decimals(means.at(-1))}, on the scale compliance.`);
  }

  showPhrases(responses) {
    const recent = responses.filter((r) => r.at >= Date.now() - hour);
    if (this.log.known && !this.log.texts) {
      fill(this.parts.phrases, el('p', { class: 'hint' }, withoutText));
      return;
    }
    const phrases = witnessPhrases(recent).slice(0, shownPhrases);
    fill(this.parts.phrases,
      el('p', { class: 'hint' }, `The witness of a response is its utterance with the largest violation. A phrase that is the witness of many responses shows what the reward depends on; if it appears in responses to many prompts, the policy may be exploiting the reward. Counted over the last ${plural(recent.length, 'response')} of the hour that the service holds.`),
      phrases.length === 0 ? el('p', {}, 'No phrase is the witness of two responses.')
        : table('Most common witnesses', ['Phrase', 'Responses', 'Share', 'Groups', 'Violations', 'Mean reward'], phrases.map((p) => [
          el('bdi', {}, p.phrase), count(p.responses), percent(p.responses / recent.length, 1), count(p.groups), percent(p.violations / p.responses), decimals(p.meanReward),
        ])));
  }
}

const orders = {
  recent: (a, b) => b.last - a.last,
  spread: (a, b) => b.deviation - a.deviation,
  flat: (a, b) => a.deviation - b.deviation,
  low: (a, b) => a.mean - b.mean,
};

/**
 * The groups of at least two responses: those to one prompt in one step, since
 * advantages are computed within a step. Rewards are on the scale that the client
 * asked for, or compliance if the group has several.
 */
export function groupsOf(responses) {
  const byKey = groupBy(responses.filter((r) => r.group), (r) => `${r.step ?? ''} ${r.group}`);
  return [...byKey].filter(([, all]) => all.length > 1).map(([key, all]) => {
    const scales = new Set(all.map((r) => r.scale));
    const scale = scales.size === 1 ? all[0].scale : 'compliance';
    const members = all.map((response) => ({ response, value: scales.size === 1 ? response.reward : response.compliance }));
    const values = members.map((m) => m.value);
    const { prompt, group, step } = all[0];
    return {
      key, members, scale, step, prompt, title: title(prompt, group),
      mean: mean(values), deviation: deviation(values), low: Math.min(...values), high: Math.max(...values),
      violations: all.filter((r) => !r.compliant).length, last: all.at(-1).sequence,
    };
  });
}

function title(prompt, group) {
  const line = (prompt ?? '').replace(/\s+/g, ' ').trim();
  if (!line) return group;
  return line.length > 80 ? `${line.slice(0, 80)}…` : line;
}

const flat = 1e-6;

function spread(group) {
  return group.deviation < flat ? el('span', { class: 'warn-text' }, `${decimals(group.deviation)}, no signal`) : decimals(group.deviation);
}

function member({ response, value }, group) {
  const advantage = value - group.mean;
  return el('article', { class: 'card member', aria: { label: `Response ${response.id}` } },
    el('h3', {}, el('span', { class: 'mono' }, response.id), ' ', verdict(response)),
    facts([
      ['Reward', decimals(value)],
      ['Advantage', signed(advantage)],
      ['Advantage / deviation', group.deviation < flat ? '–' : signed(advantage / group.deviation, 2)],
      ['Violation', decimals(response.violation, 4)],
      ['Characters', count(response.characters)],
    ]),
    response.response ? responseText(response) : el('p', { class: 'hint' }, withoutText),
    button('Details', () => showResponse(response), { aria: { label: `Details of ${response.id}` } }));
}

const signed = (value, digits = 3) => `${value > 0 ? '+' : ''}${decimals(value, digits)}`;
