// Package report describes scored responses for people: how the rewards are distributed, what they depend on, which
// utterances cost the most, and how two versions of a model differ. A report is one HTML file without scripts or
// references to others, or Markdown.
package report
