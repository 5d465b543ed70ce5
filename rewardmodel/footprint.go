package rewardmodel

// The memory of a request while it is scored, in bytes. TestFootprint validates
// these constants against the heap.
const (
	// workBytes is the temporary memory of segmentation and tokenization per byte of
	// one response: 22.5 were measured on lines of one letter, 2 on prose. wordBytes
	// is the additional memory of the tokenizer per byte of the longest word, which
	// it merges as a whole: 77 in total on a line of dots.
	workBytes = 24
	wordBytes = 64
	// utteranceBytes is an utterance in its growing slice.
	utteranceBytes = 112
	// wholeBytes is a text that is read as a whole too, in its growing slice, and the margin that it gives an utterance.
	wholeBytes = 96
	// instanceBytes is an instance of a result and its converted span.
	instanceBytes = 56
	// uniqueBytes is a distinct instance: its margin, its sequence and its entries
	// in two tables. Its tokens are in addition, tokenBytes each.
	uniqueBytes = 320
	tokenBytes  = 4
	// promptBytes is a distinct prompt that is read as context, without its tokens.
	promptBytes = 160
	// marginBytes is a margin of a further aspect of a distinct instance, in the
	// growing list of the request, in the output of the model and in its copies.
	marginBytes = 24
	// scoreBytes is the score of a further aspect in a result, and a part of the first.
	scoreBytes = 64
	// aspectsBytes is the table of the aspects of a result, and aspectBytes an entry of
	// it with its witness.
	aspectsBytes = 384
	aspectBytes  = 192
	// instanceAspectsBytes is the table of the aspects of an instance of a result, and
	// instanceAspectBytes an entry of it.
	instanceAspectsBytes = 192
	instanceAspectBytes  = 64
	// denseBytes is a token of a dense reward: its span, its reward and its
	// offsets.
	denseBytes = 48
)

// work is the temporary memory of segmenting and tokenizing the item, and that many
// bytes of its prompt.
func (it Item) work(prompt int) (n int64) {
	n = textWork(it.Prompt[max(0, len(it.Prompt)-prompt):])
	if it.Response != nil {
		n += textWork(*it.Response)
	}
	for _, m := range it.Messages {
		n += textWork(m.Content)
	}
	for _, text := range it.Instances {
		n += textWork(text)
	}
	return n
}

func textWork(text string) int64 {
	longest, start, space := 0, 0, false
	for i := range len(text) {
		if is := text[i] == ' ' || text[i] == '\n' || text[i] == '\t'; is != space {
			longest = max(longest, i-start)
			start, space = i, is
		}
	}
	longest = max(longest, len(text)-start)
	return workBytes*int64(len(text)) + wordBytes*int64(longest)
}

// bytes is the memory of the bag and of its result.
func (b bag) bytes(o Options, aspects int) int64 {
	n := utteranceBytes*int64(len(b.utterances)) + wholeBytes*int64(len(b.wholes)) + scoreBytes*int64(aspects-1)
	if o.Aspects {
		n += aspectsBytes + aspectBytes*int64(aspects)
		if *o.Instances {
			n += (instanceAspectsBytes + instanceAspectBytes*int64(aspects)) * int64(len(b.utterances))
		}
	}
	if *o.Instances {
		n += instanceBytes * int64(len(b.utterances))
	}
	return n + denseBytes*int64(len(b.tokens))
}

// held is the memory of the distinct instances and prompts so far.
func (p *preparation) held() int64 {
	prompts := int64(len(p.contexts)) * (promptBytes + tokenBytes*int64(p.config.ContextTokens))
	return prompts + (uniqueBytes+marginBytes*int64(p.aspects()-1))*int64(p.job.distinct()) + tokenBytes*int64(p.job.Tokens())
}
