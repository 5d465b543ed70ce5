package feedback

// maxDamagedListed limits the damaged records that a Verification lists.
const maxDamagedListed = 1000

// Verification counts the records of the store and lists the damaged ones.
type Verification struct {
	Labels       int `json:"labels"`       // that are intact
	Withdrawn    int `json:"withdrawn"`    // labels that their rater withdrew
	Erasures     int `json:"erasures"`     // ids that were erased
	Unverified   int `json:"unverified"`   // of these, records of earlier releases, which have no checksum
	Unrecognized int `json:"unrecognized"` // messages that assay did not write
	// DamagedCount is the number of records that are not as they were stored. They are
	// not read.
	DamagedCount int             `json:"damaged_count"`
	Damaged      []DamagedRecord `json:"damaged"` // the first 1,000
	Through      uint64          `json:"through"` // last sequence that was verified
}

// DamagedRecord is a record that is not as it was stored.
type DamagedRecord struct {
	Sequence uint64 `json:"sequence"`
	Reason   string `json:"reason"`
}

// AddDamaged counts a damaged record.
func (v *Verification) AddDamaged(r DamagedRecord) {
	v.DamagedCount++
	if len(v.Damaged) < maxDamagedListed {
		v.Damaged = append(v.Damaged, r)
	}
}

// Imported counts what an import did with the records of a file.
type Imported struct {
	Imported   int `json:"imported"`   // stored
	Duplicates int `json:"duplicates"` // not stored: their response and rater have an intact record here
	Erasures   int `json:"erasures"`   // ids that were erased by the import
	Erased     int `json:"erased"`     // records of ids that are erased here: not stored
	Conflicts  int `json:"conflicts"`  // records whose id has another text here: not stored
}
