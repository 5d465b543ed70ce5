// Package rewardmodel scores responses: it turns each into utterance instances,
// asks a model for the margin of every instance, and answers with a reward and
// the witness, the most anomalous instance.
//
// A Scorer joins a Model and a Tokenizer:
//
//	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, model, tokenizer, registry)
//	...
//	defer scorer.Close()
//	request, err := wire.DecodeRequest(body, wire.Limits{})
//	...
//	answer, err := scorer.Score(ctx, request)
//
// # From violations to a reward
//
// The model's margin of an instance is logit(violation) - logit(compliant); its
// sigmoid is g_-1, the probability that the instance is anomalous. An aggregate
// makes the bag's violation of them; the default is the largest, by which a bag
// is anomalous as soon as one instance is. T is the adjusted decision threshold
// of that aggregate. With m the logit of the bag's violation, compliance is
// sigmoid(logit(T) - m): it lies in [0,1], falls as the violation grows, and is
// 0.5 exactly where the violation is T.
//
// The largest of more instances is larger, so under max and noisy_or a longer
// response tends to a lower reward; mean has no such bias and hides a single
// violation among many compliant instances; topk lies between.
//
// # What is scored
//
// A response is segmented, and so is each message of role assistant; instances
// that are given are scored as they are. Reasoning between <think> and </think>
// is left out unless the request asks for it. A given instance that is blank
// has violation 0 and no part in the aggregate. A response in which nothing is
// left to score is empty and gets the configured reward.
//
// Offsets are bytes inside, as segmenter.Span; they become code points, bytes
// or UTF-16 units when a result is rendered.
package rewardmodel
