// The responses in Try, which other pages use too, and JSONL files of them.
import { ApiError, post } from './api.js';

/** The maximum number of responses of a file, and its size in bytes. */
export const maxItems = 5000;
const maxBytes = 64 << 20;

/** What Try holds until the page is closed. Nothing is stored. */
export const inTry = { items: [] };

/**
 * Reads a JSONL file: one JSON object per line, with response (and optionally
 * prompt), messages or instances, as POST /v1/score takes them. A line may also be
 * a JSON string, which is a response. Other fields are dropped. Throws an Error that
 * names the line.
 */
export async function readItems(file) {
  if (file.size > maxBytes) throw new Error(`${file.name} has ${file.size} bytes; the console reads up to ${maxBytes}. Use assay score for larger files.`);
  const items = [];
  const lines = (await file.text()).split('\n');
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue;
    if (items.length === maxItems) throw new Error(`${file.name} has more than ${maxItems} responses. Use assay score for larger files.`);
    items.push(parseLine(line, `${file.name}, line ${index + 1}`));
  }
  if (items.length === 0) throw new Error(`${file.name} has no responses.`);
  return items;
}

function parseLine(line, where) {
  let value;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new Error(`${where}: not JSON (${error.message})`);
  }
  if (typeof value === 'string') return { response: value.toWellFormed() };
  const kinds = ['response', 'messages', 'instances'].filter((kind) => value?.[kind] !== undefined && value[kind] !== null);
  if (kinds.length !== 1) throw new Error(`${where}: it needs exactly one of response, messages and instances`);
  const item = { [kinds[0]]: wellFormed(value[kinds[0]]) };
  for (const name of ['id', 'prompt']) {
    if (typeof value[name] === 'string' && value[name] !== '') item[name] = value[name].toWellFormed();
  }
  return item;
}

/** JSON may have lone surrogates, which are not text. */
function wellFormed(value) {
  return JSON.parse(JSON.stringify(value), (_, v) => (typeof v === 'string' ? v.toWellFormed() : v));
}

const chunkItems = 64;
const chunkCharacters = 2 << 20;

/** The start of the text of an item, on one line. */
export function excerpt(item, length = 120) {
  const text = item.response ?? item.messages?.filter((m) => m.role === 'assistant').map((m) => m.content).join(' ') ?? item.instances?.join(' ') ?? '';
  const line = text.slice(0, 4 * length).replace(/\s+/g, ' ').trim();
  return line.length > length ? `${line.slice(0, length)}…` : line;
}

/**
 * Scores items in chunks, and calls progress(done). The returned list of {result,
 * model} has the order of items. Throws an ApiError.
 */
export async function scoreAll(items, { model, options, signal, progress = () => {} }) {
  const scored = [];
  for (const chunk of chunks(items)) {
    let answer;
    try {
      answer = await scoreOnce({ responses: chunk, model, options }, signal, items.length > 1 ? 'bulk' : 'interactive');
    } catch (error) {
      error.message = error.message?.replace(/^responses\[(\d+)\]/, (_, i) => `response ${scored.length + Number(i) + 1}`);
      throw error;
    }
    for (const result of answer.results) scored.push({ result, model: answer.model });
    progress(scored.length);
  }
  return scored;
}

function* chunks(items) {
  let chunk = [];
  let size = 0;
  for (const item of items) {
    const length = JSON.stringify(item).length;
    if (chunk.length > 0 && (chunk.length === chunkItems || size + length > chunkCharacters)) {
      yield chunk;
      chunk = [];
      size = 0;
    }
    chunk.push(item);
    size += length;
  }
  if (chunk.length > 0) yield chunk;
}

/** One request, which waits while the service is overloaded; one of many also until the token has a quota again. */
async function scoreOnce(body, signal, priority) {
  const [statuses, longest] = priority === 'bulk' ? [[429, 503], 300] : [[503], 30]; // seconds
  for (let attempt = 1; ; attempt++) {
    try {
      return await post('v1/score', body, { signal, headers: { 'X-Priority': priority } });
    } catch (error) {
      if (!(error instanceof ApiError) || !statuses.includes(error.status) || error.retryAfter > longest || attempt === 5) throw error;
      await new Promise((resume) => setTimeout(resume, 1000 * (error.retryAfter || 1)));
      signal?.throwIfAborted();
    }
  }
}
