// The phrases that decide most often.
import { groupBy, mean } from './statistics.js';

/** A witness without case, spacing and punctuation at its ends, so that variants of a phrase count together. */
export const normalized = (text) => text.toLowerCase().replace(/\s+/g, ' ').replace(/^[\p{P}\p{S}\s]+|[\p{P}\p{S}\s]+$/gu, '');

/**
 * The witnesses of at least two responses, the most frequent first: {phrase,
 * responses, groups, violations, meanReward}. phrase is as the first response wrote it.
 */
export function witnessPhrases(responses) {
  const byPhrase = groupBy(responses.filter((r) => r.witness), (r) => normalized(r.witness));
  return [...byPhrase].filter(([phrase, all]) => phrase && all.length > 1).map(([, all]) => ({
    phrase: all[0].witness,
    responses: all.length,
    groups: new Set(all.map((r) => r.group).filter(Boolean)).size,
    violations: all.filter((r) => !r.compliant).length,
    meanReward: mean(all.map((r) => r.compliance)),
  })).sort((a, b) => b.responses - a.responses);
}
