// Package tokenizer turns text into the token ids of a checkpoint, exactly as
// Hugging Face tokenizers does: the byte-level BPE of RoBERTa and ModernBERT, the
// WordPiece of BERT and the Unigram of DeBERTa-v2 and v3.
//
//	t, err := tokenizer.Load("models/default")
//	ids := t.Frame(t.IDs("Thank you."))   // <s> ... </s>, ready for the model
//	e := t.Encode("Thank you.")           // ids and their spans
//
// "Exactly" means with add_prefix_space=false, trim_offsets=true and
// encode_special_tokens=true, and without truncation and padding, regardless of
// the tokenizer.json: user text never becomes a special token, and nothing is
// truncated. Load rejects what cannot be reproduced exactly.
//
// # Unigram
//
// A tokenizer.json is used as stored. With only spm.model, text is preprocessed
// as transformers converts that file (DebertaV2Converter, which versions up to 4
// used for every DeBERTa): stripped, mapped by the model's character map, and with
// runs of spaces collapsed. transformers 5 instead rebuilds any DeBERTa tokenizer
// with NFC and without that map, which gives different ids for a full-width
// letter, for example; to get the same ids here, save that tokenizer as tokenizer.json.
//
// This package deliberately differs from tokenizers in one case: a literal [CLS] is
// text. In tokenizers it becomes the special token, because the vocabulary has such
// a piece; in SentencePiece itself it does not.
//
// # Added tokens
//
// A byte-level BPE may have a normalizer (NFC) and added tokens that are not special,
// such as ModernBERT's runs of spaces: these match in text. Special ones do not.
//
// # Policies
//
// LoadPolicy reads the tokenizers of policy models, only for the offsets of their
// tokens: byte-level BPE after regular expressions, which internal/regex matches.
//
// # What this package implements
//
// The schema of tokenizer.json and the byte alphabet come from
// github.com/sugarme/tokenizer v0.3.0. The rest is implemented here, because that
// library does not reproduce the golden files of testdata, or is too slow:
//
//   - its GPT-2 pre-tokenizer splits 342 of the 4,664 strings differently ("a\n\nb");
//   - its BPE breaks ties of rank without regard to position (68 of 16,437 words,
//     such as "aaaa..."), and takes time quadratic in the length of a word;
//   - its BertNormalizer and BertPreTokenizer differ on 1,202 strings (accents,
//     "a\u3000", "Å") and panic on 25;
//   - its WordPiece returns the right pieces for all 14,559 words, but takes 40 times
//     as long, and milliseconds for one unknown word of 100 characters;
//   - its vocabulary readers skip damaged merges or end the process;
//   - its Unigram breaks ties differently (as in " (555)"), and its normalizer with
//     the character map differs on 221 of the strings and panics on 43.
//
// TestLibraryPreTokenizers fails when the first or third no longer applies.
//
// The Unicode data is also that of the reference: unicode.txt contains the classes
// of all code points in Hugging Face tokenizers, because neither Go's tables nor
// any single version of Unicode agree with it.
package tokenizer
