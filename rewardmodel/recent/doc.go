// Package recent holds the responses that a process scored last, in memory, for
// people who watch rewards.
//
// A [Ring] observes scorers ([rewardmodel.Observer]). It is bounded in number and in
// bytes, and the oldest responses are removed first. It is a sample: a request is
// recorded whole or not at all, so that the responses to one prompt stay comparable.
// Requests are skipped beyond an average rate, and whenever recording one would have
// to wait.
//
// The texts of responses are recorded only if Config.Texts permits it.
package recent
