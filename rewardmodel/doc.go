// Package rewardmodel scores responses: it splits each into utterance instances,
// computes the margin of every instance with a model, and returns a reward and the
// witness, the most anomalous instance.
//
// A Scorer combines a Model and a Tokenizer:
//
//	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, model, tokenizer, registry)
//	...
//	defer scorer.Close()
//	request, err := wire.DecodeRequest(body, wire.Limits{})
//	...
//	response, err := scorer.Score(ctx, request)
//
// # From violations to a reward
//
// The model's margin of an instance is logit(violation) - logit(compliant); its
// sigmoid is g_-1, the probability that the instance is anomalous. An aggregate
// combines them to the bag's violation; the default is the maximum, by which a bag
// is anomalous if any instance is. T is the adjusted decision threshold of that
// aggregate. With m the logit of the bag's violation, compliance is
// sigmoid(logit(T) - m): it is in [0,1], decreases as the violation increases, and
// is 0.5 exactly where the violation is T.
//
// The maximum of more instances is larger, so with max and noisy_or a longer
// response tends to have a lower reward. mean has no such bias, but a single
// violation has little effect among many compliant instances; topk is in between.
//
// # What is scored
//
// A response is segmented, as is each message of role assistant; given instances
// are scored without segmentation. Reasoning between <think> and </think> is
// skipped unless the request includes it. A blank given instance has violation 0
// and is not aggregated. A response without text to score is empty and gets the
// configured reward.
//
// Internal offsets are bytes, as in segmenter.Span; they are converted to code
// points, bytes or UTF-16 units when a result is rendered.
package rewardmodel
