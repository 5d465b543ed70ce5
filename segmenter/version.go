package segmenter

// Version identifies the rules. A checkpoint records it, because a model is
// trained on the utterances of these rules. Increment it when the spans change.
const Version = "1"
