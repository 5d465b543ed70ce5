// Package reasoning finds the blocks of reasoning in a response, between <think> and </think>, and returns what is around
// them: the answer. A complete text and one that grows give the same parts. It does not depend on how they are scored.
package reasoning
