// The request of the page as a command or a program.
import { address } from './api.js';

/**
 * JSON on one line. Characters that are invisible, or that change the direction of
 * the text around them, are escaped, so that what is copied is what is seen.
 */
export function json(value) {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The request as a command for a POSIX shell. */
export function curl(request, token) {
  const lines = [`curl -sS ${quote(address('v1/score'))}`, "-H 'Content-Type: application/json'"];
  if (token) lines.push('-H "Authorization: Bearer $ASSAY_TOKEN"');
  lines.push(`-d ${quote(json(request))}`);
  return lines.join(' \\\n  ');
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a program for assay-client. A JSON string is a string of Python. */
export function python(request) {
  const options = Object.entries(request.options ?? {}).filter(([name]) => name !== 'offset_unit').map(([name, value]) => `${name}=${literal(value)}`);
  const settings = [request.model && `model=${json(request.model)}`, options.length > 0 && `options=Options(${options.join(', ')})`].filter(Boolean);
  return [
    '# pip install ./clients/python; the token is that of $ASSAY_TOKEN',
    `from assay_client import Client${options.length > 0 ? ', Options' : ''}`,
    '',
    'items = [',
    ...request.responses.map((item) => `    ${json(item)},`),
    ']',
    `with Client(${json(address('').replace(/\/$/, ''))}) as assay:`,
    `    for r in assay.score(items${settings.map((s) => `, ${s}`).join('')}):`,
    '        print(r.reward, r.compliant, r.witness and r.witness.text)',
  ].join('\n');
}

const literal = (value) => (value === true ? 'True' : value === false ? 'False' : json(value));
