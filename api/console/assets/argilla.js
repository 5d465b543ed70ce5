// Records of Argilla 2, as rg.Dataset.records.to_json writes them and
// rg.Dataset.records.from_json reads them.
import { bodyOf, plainText, responseIdOf } from './labelitems.js';

/**
 * Returns a record for a candidate of GET /v1/feedback/candidates: the verdict of
 * the model is a suggestion. label, if there is one, is {label, rater}: it becomes a
 * response if the rater is the UUID of an Argilla user, which Argilla requires, and
 * metadata otherwise.
 */
export function toRecord(candidate, label) {
  const question = 'label';
  const metadata = {
    response_id: candidate.id, form: bodyOf(candidate), model: candidate.model,
    violation: candidate.violation, threshold: candidate.threshold, reason: candidate.reason,
  };
  if (candidate.aspect) metadata.aspect = candidate.aspect;
  const responses = {};
  if (label && isUUID(label.rater)) responses[question] = [{ value: label.label, user_id: label.rater }];
  else if (label) Object.assign(metadata, { label: label.label, rater: label.rater });
  return {
    id: candidate.id,
    fields: { prompt: candidate.prompt ?? '', response: plainText(candidate) },
    metadata,
    suggestions: {
      [question]: { value: verdictOf(candidate), score: 1 - candidate.uncertainty, agent: `assay ${candidate.model}` },
    },
    responses,
    vectors: {},
    _server_id: null,
  };
}

export const verdictOf = (candidate) => (candidate.violation > candidate.threshold ? 'violation' : 'compliant');

const isUUID = (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

/** Whether a parsed file has records. */
export const isRecords = (value) => Array.isArray(value) && value.length > 0 && value.every((r) => typeof r?.fields === 'object' && r.fields !== null);

/**
 * Returns the labels of records: {questions, fields, labels}. A label is {id,
 * question, value, rater, fields, responseId}; responseId is '' for records that do not come
 * from assay.
 */
export function fromRecords(records) {
  const labels = [];
  for (const [index, record] of records.entries()) {
    for (const [question, responses] of Object.entries(record.responses ?? {})) {
      for (const response of responses ?? []) {
        labels.push({
          id: String(record.id ?? record._server_id ?? `record-${index + 1}`),
          question, value: response.value, rater: response.user_id ? `argilla:${response.user_id}` : 'argilla',
          fields: record.fields, responseId: responseIdOf(record.metadata),
        });
      }
    }
  }
  return labels;
}
