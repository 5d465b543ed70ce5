package rewardmodel

// What a request holds while it is scored, in bytes. TestFootprint validates
// these against the heap.
const (
	// workBytes is what segmenting and tokenizing takes for each byte of one
	// response, and gives back: 22.5 were measured on lines of one letter, 2 on
	// prose. wordBytes is what the tokenizer takes on top for each byte of the
	// longest word, which it merges as a whole: 77 in all on a line of dots.
	workBytes = 24
	wordBytes = 64
	// utteranceBytes is an utterance in its growing slice.
	utteranceBytes = 112
	// instanceBytes is an instance of a result and its converted span.
	instanceBytes = 48
	// uniqueBytes is a distinct instance: its margin, its sequence and its place
	// in two tables. Its tokens come on top, tokenBytes each.
	uniqueBytes = 320
	tokenBytes  = 4
	// denseBytes is a token of a dense reward: its span, its reward and its
	// offsets.
	denseBytes = 48
)

// work is what segmenting and tokenizing the item takes.
func (it Item) work() (n int64) {
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

// bytes is what the bag holds, and its result will.
func (b bag) bytes(o Options) int64 {
	n := utteranceBytes * int64(len(b.utterances))
	if *o.Instances {
		n += instanceBytes * int64(len(b.utterances))
	}
	return n + denseBytes*int64(len(b.tokens))
}

// held is what the distinct instances hold so far.
func (p *preparation) held() int64 {
	return uniqueBytes*int64(len(p.job.margins)) + tokenBytes*int64(p.job.tokens)
}
