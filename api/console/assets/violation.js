// How violations, thresholds and rewards relate.

// As the service bounds log-odds.
const bound = 20;

const logit = (p) => Math.max(-bound, Math.min(bound, Math.log(p) - Math.log1p(-p)));
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/**
 * The compliance of an utterance or response in [0,1]: 0.5 exactly at the
 * threshold, lower above it. It keeps apart what lies close together near 1.
 */
export const compliance = (violation, threshold) => sigmoid(logit(threshold) - logit(violation));

/** The strength of the tint of an utterance in [0,1]: 0 far below the threshold, 1 far above. */
export const tint = (violation, threshold) => 1 - compliance(violation, threshold);

/** Whether an utterance alone would make the response a violation. */
export const exceeds = (violation, threshold) => violation > threshold;
