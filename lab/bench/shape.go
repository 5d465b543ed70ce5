package bench

// Shape holds the sizes that determine the cost of an encoder.
type Shape struct{ Hidden, Layers, Intermediate int }

// FLOP is the number of floating-point operations of the encoder on one sequence of that many tokens without padding: a
// multiplication and an addition for each weight of a linear layer and token, and for both matrix multiplications of attention. What
// is linear in Hidden (norms, activations, embeddings) and the head, which sees one token, is omitted: under 1 %.
func (s Shape) FLOP(tokens int) float64 {
	n, d := float64(tokens), float64(s.Hidden)
	linear := 4*d*d + 2*d*float64(s.Intermediate)
	return float64(s.Layers) * (2*n*linear + 4*n*n*d)
}

// Total counts the contents of responses.
type Total struct {
	Utterances, Tokens int
	FLOP               float64
}

// Total adds up the responses.
func (s Shape) Total(work []Response) Total {
	var t Total
	for _, r := range work {
		t.Utterances += len(r.Utterances)
		for _, n := range r.Tokens {
			t.Tokens += n
			t.FLOP += s.FLOP(n)
		}
	}
	return t
}
