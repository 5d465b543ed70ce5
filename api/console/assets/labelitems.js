// Candidates and labels as items of POST /v1/feedback.

/** Which of response, messages and instances has the text of a candidate. */
export const bodyOf = (candidate) => ['messages', 'instances'].find((name) => candidate[name]) ?? 'response';

/** The text of a candidate in one string, as other tools show it. */
export function plainText(candidate) {
  if (candidate.messages) return candidate.messages.map((m) => `${m.role}: ${m.content}`).join('\n\n');
  if (candidate.instances) return candidate.instances.join('\n');
  return candidate.response ?? '';
}

/**
 * Returns an item with a label ('compliant' or 'violation') for a candidate. Of a
 * model with several aspects it is a label of the one to judge. The text is part of
 * the item: the service may no longer have it when the label arrives.
 */
export function toItem(candidate, label, rater) {
  const body = bodyOf(candidate);
  return {
    id: candidate.id, response_id: candidate.id, rater, time: new Date().toISOString(),
    ...(candidate.aspect ? { labels: { [candidate.aspect]: label } } : { label }),
    prompt: candidate.prompt, [body]: candidate[body],
  };
}

/**
 * The id under which the service knows a text that assay exported, if the exported
 * text is not the whole of it: then only the id identifies it.
 */
export function responseIdOf(metadata) {
  const { response_id: id, form } = metadata ?? {};
  return typeof id === 'string' && form !== 'response' ? id : '';
}

/**
 * Returns the item of an imported label (see fromRecords). choice is {prompt,
 * response} (names of fields), aspect ('' for the whole response) and label.
 */
export function importedItem(imported, choice, label) {
  const item = { id: imported.id, rater: imported.rater, ...(choice.aspect ? { labels: { [choice.aspect]: label } } : { label }) };
  if (imported.responseId) return { ...item, id: imported.responseId, response_id: imported.responseId };
  const prompt = choice.prompt ? imported.fields[choice.prompt] : '';
  if (typeof prompt === 'string' && prompt !== '') item.prompt = prompt;
  return { ...item, response: String(imported.fields[choice.response] ?? '') };
}
