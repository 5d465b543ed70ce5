// The shell: navigation by the fragment of the URL, the session, and one page at a time.
import * as api from './api.js';
import { announce, button, el, fill, message } from './elements.js';
import { routes } from './routes.js';

const byId = (id) => document.getElementById(id);
const signInDialog = byId('sign-in');

let user; // {name, scopes, csrf}; undefined: unknown
let leave = new AbortController(); // aborts what the current page does

const may = (scope) => scope === '' || Boolean(user?.scopes.includes(scope));

/** Parses '#/try?model=v1'. */
function location() {
  const [name, query] = window.location.hash.replace(/^#\/?/, '').split('?');
  return { route: routes.find((r) => r.name === name) ?? routes[0], query: new URLSearchParams(query) };
}

function showNavigation(current) {
  fill(byId('pages'), routes.filter((r) => may(r.scope)).map((r) => el('li', {},
    el('a', { href: `#/${r.name}`, aria: r === current ? { current: 'page' } : {} }, r.title))));
}

function showAccount() {
  if (!user) return fill(byId('account'));
  return fill(byId('account'),
    el('span', { title: `Scopes: ${user.scopes.join(', ') || 'none'}` }, user.name),
    user.csrf && button('Sign out', signOut));
}

/** Shows the page that the URL names. */
async function navigate() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const { route, query } = location();
  showNavigation(route);
  document.title = `${route.title} · assay`;
  byId('title').textContent = route.title;
  fill(byId('notice'));
  const view = fill(byId('view'));
  if (!may(route.scope)) {
    refuse(view, route);
    return;
  }
  try {
    const page = await route.load();
    if (signal.aborted) return;
    await page.show(view, { query, signal, may, user, report: (error) => report(error, signal) });
  } catch (error) {
    report(error, signal);
  }
}

function refuse(view, route) {
  if (!user) return;
  view.append(message('info', `The token of ${user.name} does not have the scope ${route.scope}, which this page needs. Sign out, and sign in with a token that has it.`));
}

/** Shows a failure above the page. Without an error it removes the last one. */
function report(error, signal) {
  if (signal.aborted || error?.name === 'AbortError') return;
  if (!error) {
    fill(byId('notice'));
    return;
  }
  if (error.status === 401) return; // the dialog asks for a token
  const retry = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : '';
  fill(byId('notice'), message('error', error.message, retry));
}

/** Asks the service who the user is, and for a token if it needs one. Returns whether the service has answered that. */
async function identify() {
  let answered = true;
  try {
    user = await api.session();
  } catch (error) {
    user = undefined;
    answered = error.status === 401;
    if (answered) askForToken();
    else fill(byId('notice'), message('error', error.message, ' ', button('Try again', start)));
  }
  showAccount();
  return answered;
}

function askForToken() {
  if (!signInDialog.open) signInDialog.showModal();
}

async function signOut() {
  try {
    await api.signOut();
  } catch (error) {
    if (error.status !== 401) { // it has not ended already
      report(error, leave.signal);
      return;
    }
  }
  user = undefined;
  showAccount();
  window.location.reload(); // without the texts of this user; the browser asks if labels wait to be sent
}

async function start() {
  if (await identify()) await navigate();
}

byId('sign-in-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const input = byId('token');
  try {
    user = await api.signIn(input.value.trim());
  } catch (error) {
    byId('sign-in-error').textContent = error.message;
    return;
  }
  input.value = '';
  byId('sign-in-error').textContent = '';
  signInDialog.close();
  announce(`Signed in as ${user.name}.`);
  showAccount();
  await navigate();
});
// Nothing works without a token. A browser closes a dialog at a second Escape, even if its cancel event is canceled.
signInDialog.addEventListener('close', () => user || askForToken());

byId('skip').addEventListener('click', (event) => {
  event.preventDefault(); // the fragment is that of a page
  byId('main').focus();
});
window.addEventListener('signed-out', () => {
  user = undefined;
  showAccount();
  askForToken();
});
window.addEventListener('session-changed', async () => {
  await identify();
  showNavigation(location().route);
});
window.addEventListener('hashchange', async () => {
  await (user ? navigate() : start());
  if (document.activeElement === document.body) byId('main').focus(); // as after a link to another document
  announce(byId('title').textContent);
});
await start();
