// Package compat serves the HTTP protocols of trainers and inference servers that
// users already have: each file is one protocol. A protocol turns a request into
// a rewardmodel.Request and the answer into its own response. To add one, write a
// type with a method routes, and list it in [Routes].
package compat

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
)

// Routes returns the endpoints of all protocols. ready returns why the service
// cannot score now, nil if it can.
func Routes(backend adapter.Backend, ready func() error) []httpjson.Route {
	return slices.Concat(
		openRLHF{backend}.routes(),
		slime{backend}.routes(),
		vllm{backend}.routes(),
		sglang{backend}.routes(),
		moderations{backend}.routes(),
		tei{backend, ready}.routes(),
		fms{backend}.routes(),
		litellm{backend}.routes(),
	)
}

// listsOf decodes the lists of a request, within its limits.
func listsOf(r *http.Request) adapter.Lists {
	return adapter.Lists{Limit: exchange.Of(r).Limits().MaxResponses()}
}

// The classes, in the order of probabilities.
const (
	labelViolation = "violation"
	labelCompliant = "compliant"
)

// label returns the class of the larger probability. It is that of Result.Compliant,
// except where a sum of aspects compensates for the violation of one.
func label(result rewardmodel.Result) string {
	if result.Reward >= 0.5 {
		return labelCompliant
	}
	return labelViolation
}

// probabilities returns those of the classes violation and compliant, in this
// order: the last one is the reward, and the larger one is the decision.
func probabilities(result rewardmodel.Result) [2]float64 {
	return [2]float64{1 - result.Reward, result.Reward}
}

// decimal is a number whose JSON always has a fraction or an exponent (1.0, not
// 1): Python would read an integer, and a batch of integers becomes an integer
// tensor, which has no mean.
type decimal float64

// MarshalJSON implements json.Marshaler.
func (d decimal) MarshalJSON() ([]byte, error) {
	out, err := json.Marshal(float64(d))
	if err == nil && !bytes.ContainsAny(out, ".eE") {
		out = append(out, ".0"...)
	}
	return out, err
}
