// Requests to the API of the service, with the session of the console.

// The console may be served below a path of a proxy: this module is at
// ROOT/console/assets/api.js.
const root = new URL('../../', import.meta.url);

// The CSRF token of the session is kept in this variable only. A page that is
// loaded again gets it from GET /console/session.
let csrf = '';

/** A failed request: status is 0 if no response arrived. */
export class ApiError extends Error {
  constructor(status, code, message, { field = '', retryAfter = 0, requestId = '' } = {}) {
    super(field ? `${field}: ${message}` : message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.field = field;
    this.retryAfter = retryAfter; // seconds; 0: not specified
    this.requestId = requestId;
  }
}

/** Returns the URL of an endpoint, such as 'v1/score'. */
export function address(path) {
  return new URL(path, root).href;
}

/** Sends a request and returns the Response, or throws an ApiError or an AbortError. */
export async function send(method, path, options = {}) {
  try {
    return await attempt(method, path, options);
  } catch (error) {
    // Another tab signed in since this page was loaded: the cookie has a new session.
    if (error.field !== 'X-CSRF-Token') throw error;
    await session();
    window.dispatchEvent(new Event('session-changed'));
    return attempt(method, path, options);
  }
}

async function attempt(method, path, { body, headers = {}, signal }) {
  const all = { Accept: 'application/json', ...headers };
  if (body !== undefined) all['Content-Type'] = 'application/json';
  if (csrf && method !== 'GET') all['X-CSRF-Token'] = csrf;
  let response;
  try {
    response = await fetch(address(path), {
      method, headers: all, signal, credentials: 'same-origin', cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.');
  }
  if (response.ok) return response;
  const error = await failure(response);
  if (error.status === 401 && path !== 'console/session') window.dispatchEvent(new Event('signed-out'));
  throw error;
}

async function failure(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch { /* the body is not JSON: the status has to do */ }
  return new ApiError(response.status, error.code ?? '', error.message ?? `The service responded ${response.status}.`, {
    field: error.field, requestId: error.request_id, retryAfter: Number(response.headers.get('Retry-After')) || 0,
  });
}

async function json(method, path, options) {
  const response = await send(method, path, options);
  return response.status === 204 ? undefined : response.json();
}

/** Each returns the body of the response. Options: signal, headers. */
export const get = (path, options) => json('GET', path, options);
export const post = (path, body, options) => json('POST', path, { ...options, body });
export const remove = (path, options) => json('DELETE', path, options);

/** Returns the body of a response as text, such as that of /metrics. */
export const text = async (path, options) => (await send('GET', path, { headers: { Accept: 'text/plain' }, ...options })).text();

const reopenAfter = 5000; // milliseconds

/**
 * Follows a stream of server-sent events until signal aborts. on maps names of
 * events to functions of their JSON; on.state gets 'open' and 'lost'. A stream that
 * is lost resumes after the last event that it received.
 */
export function follow(path, on, signal) {
  let last = '';
  let stream;
  // A stream does not tell why it was refused: it may be that the session has ended.
  const reopen = async () => {
    try {
      await get('console/session');
    } catch (error) {
      if (error.status === 401) {
        window.dispatchEvent(new Event('signed-out'));
        return;
      }
    }
    setTimeout(() => signal.aborted || open(), reopenAfter);
  };
  const open = () => {
    const url = new URL(address(path));
    if (last) url.searchParams.set('after', last);
    stream = new EventSource(url);
    stream.onopen = () => on.state?.('open');
    stream.onerror = () => {
      on.state?.('lost');
      if (stream.readyState === EventSource.CLOSED) reopen(); // the browser reconnects by itself, unless the service refused
    };
    for (const [name, receive] of Object.entries(on)) {
      if (name === 'state') continue;
      stream.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        receive(JSON.parse(event.data));
      });
    }
  };
  signal.addEventListener('abort', () => stream.close());
  open();
}

/** Returns who the caller is: {name, scopes, csrf, expires}, or throws an ApiError. */
export async function session() {
  return accept(await get('console/session'));
}

/** Exchanges a token for a session. */
export async function signIn(token) {
  csrf = '';
  return accept(await post('console/session', undefined, { headers: { Authorization: `Bearer ${token}` } }));
}

/** Ends the session. */
export async function signOut() {
  await remove('console/session');
  csrf = '';
}

function accept(found) {
  csrf = found.csrf;
  return found;
}
