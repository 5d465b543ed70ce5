package feedback

// Stats counts what is known by labels. A bag is a response that has a label by
// the majority of its raters; all numbers are of bags but Raters and Records.
type Stats struct {
	Bags              int `json:"bags"`       // to train on: neither held out nor disputed
	Violations        int `json:"violations"` // of these
	HeldOut           int `json:"held_out"`
	HeldOutViolations int `json:"held_out_violations"`
	Disputed          int `json:"disputed"` // responses whose raters do not agree: left out
	Raters            int `json:"raters"`
	Records           int `json:"records"`
	// New counts, of Bags, those labelled or changed since a training.
	New struct {
		Bags       int `json:"bags"`
		Violations int `json:"violations"`
	} `json:"new"`
}
