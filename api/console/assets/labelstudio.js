// Tasks of Label Studio in its JSON format, with a <Choices name="label"
// toName="response"> in the labeling configuration.
import { bodyOf, plainText, responseIdOf } from './labelitems.js';
import { verdictOf } from './argilla.js';

const control = { from_name: 'label', to_name: 'response', type: 'choices' };

/**
 * Returns a task for a candidate of GET /v1/feedback/candidates: the verdict of the
 * model is a prediction. label, if there is one, is {label, rater}: it becomes an
 * annotation. Label Studio attributes it to the user who imports the file, so
 * that the rater is in the data.
 */
export function toTask(candidate, label) {
  const data = {
    id: candidate.id, prompt: candidate.prompt ?? '', response: plainText(candidate), response_id: candidate.id, form: bodyOf(candidate),
    model: candidate.model, violation: candidate.violation, threshold: candidate.threshold, reason: candidate.reason,
  };
  if (candidate.aspect) data.aspect = candidate.aspect;
  const task = {
    data,
    predictions: [{
      model_version: candidate.model, score: 1 - candidate.uncertainty,
      result: [{ ...control, value: { choices: [verdictOf(candidate)] } }],
    }],
  };
  if (label) {
    data.rater = label.rater;
    task.annotations = [{ was_cancelled: false, result: [{ ...control, value: { choices: [label.label] } }] }];
  }
  return task;
}

/** Whether a parsed file has tasks. */
export const isTasks = (value) => Array.isArray(value) && value.length > 0 && value.every((t) => typeof t?.data === 'object' && t.data !== null);

/** Returns the labels of tasks as fromRecords does. Skipped annotations have none. */
export function fromTasks(tasks) {
  const labels = [];
  for (const [index, task] of tasks.entries()) {
    for (const annotation of task.annotations ?? []) {
      if (annotation.was_cancelled) continue;
      for (const result of annotation.result ?? []) {
        const choices = result.value?.choices;
        if (result.type !== 'choices' || !Array.isArray(choices)) continue;
        labels.push({
          id: String(task.data.id ?? task.data.response_id ?? `task-${task.id ?? index + 1}`),
          question: result.from_name, value: choices.length === 1 ? choices[0] : choices.join(', '),
          rater: raterOf(annotation.completed_by, task.data.rater), fields: task.data, responseId: responseIdOf(task.data),
        });
      }
    }
  }
  return labels;
}

/** completed_by is the id of a user, or an object with it. */
function raterOf(completedBy, known) {
  if (typeof known === 'string' && known !== '') return known;
  const user = typeof completedBy === 'object' && completedBy !== null ? completedBy.email ?? completedBy.id : completedBy;
  return user === undefined || user === null ? 'label-studio' : `label-studio:${user}`;
}
