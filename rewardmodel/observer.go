package rewardmodel

// Observer receives the responses that a Scorer has scored, for a view of the most
// recent ones. The metrics count the same responses: those of requests that are not
// Internal.
type Observer interface {
	// Observe is called once per request, on the goroutine that scored it, before its
	// caller has the results. It must return quickly and never wait. It must not
	// change or keep the arguments; observations has one element for each result, in
	// the same order.
	Observe(request Request, response ScoreResponse, observations []Observation)
}

// Observation is what an Observer receives in addition to a Result.
type Observation struct {
	Compliance float64 // the reward on the scale RewardCompliance, in [0,1]
	Utterances int     // that the response was divided into, whether or not the result lists them
}
