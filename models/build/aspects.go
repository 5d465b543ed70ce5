package main

import (
	"maps"

	"assay/rewardmodel/bag"
)

// The aspects of the labels. A data set labels its own rule only: most posts that EDOS calls not sexist would be insults to
// another set.
const (
	toxicity = "toxicity"
	hate     = "hate"
	sexism   = "sexism"
	harm     = "harm"
)

// categoryAspect is the aspect of a category of the policy. The category refusal has none: it depends on the request.
var categoryAspect = map[string]string{
	"insult": toxicity, "profanity": toxicity, "harassment": toxicity, "threat": toxicity, "sexual": toxicity,
	"hate": hate, "apology": hate,
	"sexism":    sexism,
	"self-harm": harm, "violent-wrongdoing": harm, "wrongdoing": harm, "unsafe-advice": harm, "deception": harm,
}

// diaSafetyAspect is the aspect of a category of DiaSafety.
var diaSafetyAspect = map[string]string{
	"Offending User": toxicity, "Biased Opinion": hate,
	"Toxicity Agreement": harm, "Risk Ignorance": harm, "Unauthorized Expertise": harm,
}

// example is a labeled response and where it comes from. Examples of one group are in the same part of the split.
type example struct {
	source, group string
	bag           bag.Bag
	fields        fields
}

// fields are what else a set says about a response; a report on a model groups its metrics by them.
type fields struct {
	Category string `json:"category,omitempty"`
	Form     string `json:"form,omitempty"`
	Spelling string `json:"spelling,omitempty"`
	pair     int    // of the corpus, from 1, which both twins have
}

// violates returns the labels of a violation of the given aspects. The others are unlabeled.
func violates(aspects ...string) bag.Bag {
	labels := map[string]bag.Label{}
	for _, name := range aspects {
		labels[name] = bag.Violation
	}
	return bag.Bag{Labels: labels}
}

// complies returns the labels of a text that complies with the given aspects, by default with all.
func complies(aspects ...string) bag.Bag {
	if len(aspects) == 0 {
		return bag.Bag{Label: bag.Compliant}
	}
	labels := map[string]bag.Label{}
	for _, name := range aspects {
		labels[name] = bag.Compliant
	}
	return bag.Bag{Labels: labels}
}

// judged returns the labels of a text that a set judges by the given aspects alone.
func judged(label bag.Label, aspects ...string) bag.Bag {
	if label == bag.Violation {
		return violates(aspects...)
	}
	return complies(aspects...)
}

// with returns the labels of b on a text and its prompt.
func with(b bag.Bag, prompt, response string) bag.Bag {
	return bag.Bag{Label: b.Label, Labels: maps.Clone(b.Labels), Prompt: prompt, Response: response}
}
