package segmenter

// Version names the rules. A checkpoint records it, because a model learns on
// utterances as these rules cut them; it grows when they change what they cut.
const Version = "1"
