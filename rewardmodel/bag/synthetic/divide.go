package synthetic

import "hash/fnv"

// Pair returns Sentences of custom texts of both kinds; ReadLines reads them. A
// fifth of each kind is held out as the test split.
//
// The split of a text depends only on the text (a hash of it), so that equal
// ones are never on both sides, and more sentences do not move the others.
func Pair(normal, anomalous []string) Sentences {
	return divide(Split{Normal: normal, Anomalous: anomalous})
}

func divide(all Split) Sentences {
	var s Sentences
	s.Train.Normal, s.Test.Normal = heldOut(all.Normal)
	s.Train.Anomalous, s.Test.Anomalous = heldOut(all.Anomalous)
	return s
}

// heldOut keeps four fifths of the texts and holds out the fifth.
func heldOut(texts []string) (kept, held []string) {
	for _, text := range texts {
		hash := fnv.New64a()
		hash.Write([]byte(text))
		// The low bits of FNV mix poorly; fold the high ones in.
		if sum := hash.Sum64(); (sum^sum>>32)%5 == 0 {
			held = append(held, text)
		} else {
			kept = append(kept, text)
		}
	}
	return kept, held
}
