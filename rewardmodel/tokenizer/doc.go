// Package tokenizer turns text into the token ids of a checkpoint, exactly as
// Hugging Face tokenizers does: the byte-level BPE of RoBERTa, the WordPiece of
// BERT and the Unigram of DeBERTa-v2 and v3.
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
// # Unigram
//
// A tokenizer.json is followed as it stands. From spm.model alone, text becomes
// words as transformers converts that file (DebertaV2Converter, which versions up
// to 4 used for every DeBERTa): stripped, mapped by the characters' map of the
// model, runs of spaces made one. transformers 5 instead rebuilds any DeBERTa
// tokenizer with NFC and without that map, which gives other ids for, say, a
// full-width letter; save the tokenizer with it, as tokenizer.json, to have the
// same here.
//
// In one thing this package differs from tokenizers on purpose: a literal [CLS]
// is text. There it becomes the token, because the vocabulary has such a piece;
// in SentencePiece itself it does not.
//
// # Policies
//
// LoadPolicy reads the tokenizers of policy models, for the offsets of their
// tokens alone: byte-level BPE behind regular expressions. Those are matched by a
// small engine of this package, since Go's has no look-ahead and other Unicode
// tables than the reference; properties.txt holds the reference's.
//
// # What is ours
//
// The document shape of tokenizer.json and the byte alphabet come from
// github.com/sugarme/tokenizer v0.3.0. The rest is written here, because that
// library does not hold the goldens of testdata, or not in time:
//
//   - its GPT-2 pre-tokenizer cuts 342 of the 4,664 strings differently ("a\n\nb");
//   - its BPE breaks ties of rank without regard to position (68 of 16,437 words,
//     such as "aaaa..."), and takes time quadratic in the length of a word;
//   - its BertNormalizer and BertPreTokenizer differ on 1,202 strings (accents,
//     "a\u3000", "Å") and panic on 25;
//   - its WordPiece gives the right pieces for all 14,559 words, but in 40 times
//     the time, and in milliseconds for one unknown word of 100 characters;
//   - its readers of vocabularies skip damaged merges or end the process;
//   - its Unigram breaks ties otherwise (as in " (555)"), and its normalizer with
//     the characters' map differs on 221 of the strings and panics on 43.
//
// TestLibraryPreTokenizers fails when the first or third is no longer so.
//
// Unicode is the reference's too: unicode.txt holds the classes of all code
// points as that library sees them, since neither Go's tables nor one version
// of Unicode agree with it.
package tokenizer
