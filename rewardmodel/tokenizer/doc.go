// Package tokenizer turns text into the token ids of a checkpoint, exactly as
// Hugging Face tokenizers does: the byte-level BPE of RoBERTa and the WordPiece
// of BERT.
//
//	t, err := tokenizer.Load("models/default")
//	ids := t.Frame(t.IDs("Thank you."))   // <s> ... </s>, ready for the model
//	e := t.Encode("Thank you.")           // ids and the bytes each stands for
//
// "Exactly" is with add_prefix_space=false, trim_offsets=true and
// encode_special_tokens=true, and without truncation and padding, whatever a
// tokenizer.json stores: text of a user never becomes a special token, and
// nothing is cut. What cannot be done exactly is refused by Load.
//
// # What is ours
//
// The document shape of tokenizer.json and the byte alphabet come from
// github.com/sugarme/tokenizer. The rest is written here, because the goldens
// in testdata differ with it: see docs/dependencies.md.
//
// Unicode is the reference's too: unicode.txt holds the classes of all code
// points as that library sees them, since neither Go's tables nor one version
// of Unicode agree with it.
package tokenizer
