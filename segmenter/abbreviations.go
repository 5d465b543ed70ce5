package segmenter

import (
	"iter"
	"strings"
)

// role describes how a word that ends in a period relates to its surroundings.
type role uint8

const (
	ordinary role = iota
	title         // precedes a name: Dr. Who
	rank          // a title, and in lowercase also a word: Prof. Ito, reps
	lead          // precedes what it introduces: e.g. this, vs. that
	number        // precedes a number: No. 5, Fig. 2
	date          // month or day, capitalized: Sept. 11
	trail         // may end a sentence: Inc., etc., Ave.
	place         // like trail, capitalized: Mass., Ill.
	clock         // a.m., p.m.
)

// abbreviations maps lowercase words, without their last period, to roles.
var abbreviations = table(roleWords)

// roleWords lists the abbreviations of each role; a word has one role only.
var roleWords = map[role]string{
	title: `mr mrs ms mx dr drs rev revd hon lt cpl sgt cmdr cdr adm maj brig
		supt insp messrs mssrs mme mlle sra srta srs sres dña st ste hrn frl
		dipl ing assoc asst atty`,
	rank: `prof profs gen gens col capt gov govs sen sens rep reps pres phil mt lic`,
	lead: `e.g eg i.e ie cf vs v viz ca c approx esp incl excl resp aka a.k.a f.k.a w.r.t nee née
		z.b d.h u.a bzw vgl ggf sog evtl p.ej p.ex p.s ps n.b nb attn ibid op.cit voc encl feat i.d`,
	number: `no nos nr núm num art arts fig figs eq eqs sec secs sect ch chap chaps vol vols p pp par para pt pts
		ed eds ext tel app ver rel pág págs pag abb abs kap bd tab ref refs ex lot rm apt ln tbl chr max min`,
	date: `jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun`,
	trail: `inc ltd co corp cos llc plc pty pvt bros assn dept div etc ect et.al al jr sr esq ave blvd rd hwy bldg
		sq ph.d phd m.sc b.sc m.a b.a m.d d.c gmbh usw tsp tbsp yrs yr hrs hr lbs lb oz intl natl govt mfg dpt trans`,
	place: `cal calif conn mass mich minn penn pa tex fla ariz colo ill ind kan ky okla ore tenn wash wis miss`,
	clock: `a.m p.m`,
}

// starters are lowercase words that start sentences and rarely occur in names:
// after an abbreviation only such a word indicates a new sentence.
var starters = set(`the a an this that these those it its he she they we you i his her their our my your
	in on at for from with without by as to of but and or so if when while after before although though
	because since until unless whereas however therefore moreover furthermore meanwhile nevertheless
	otherwise instead also then thus hence there here what why how who whom where which whose whether
	some many most all each every both several few another other such no not yes only even just once
	please let do does did don is are was were can could will would should may might must have has had
	now today yesterday tomorrow perhaps maybe finally first second third next later
	more much neither nor nothing nobody everyone everything someone something one two three four
	under over during despite according given among between through
	der die das ein eine er sie es wir ich und aber le les un une il elle nous vous je et mais
	el los las una ella yo nosotros pero y`)

// timeWords follow a time of day without ending its sentence.
var timeWords = set(`monday tuesday wednesday thursday friday saturday sunday january february march april
	may june july august september october november december eastern pacific central mountain greenwich`)

// speechVerbs follow direct speech and its speaker.
var speechVerbs = set(`said says say asked asks replied replies answered added shouted cried whispered
	exclaimed explained told wrote continued insisted muttered yelled called`)

func table(lists map[role]string) map[string]role {
	out := make(map[string]role)
	for r, list := range lists {
		for w := range strings.FieldsSeq(list) {
			out[w] = r
		}
	}
	return out
}

func set(list string) map[string]struct{} {
	out := make(map[string]struct{})
	for w := range words(list) {
		out[w] = struct{}{}
	}
	return out
}

func words(list string) iter.Seq[string] { return strings.FieldsSeq(list) }

// lowered is a short lowercase word that is not allocated on the heap.
type lowered struct {
	buf [24]byte
	n   int
}

// lower converts the ASCII letters of w to lowercase. A word that does not fit is
// in no table and becomes empty.
func lower(w string) (l lowered) {
	if len(w) > len(l.buf) {
		return l
	}
	for i := range len(w) {
		c := w[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		l.buf[i] = c
	}
	l.n = len(w)
	return l
}

// beginsIn reports whether a word of m starts with l.
func (l *lowered) beginsIn(m map[string]struct{}) bool {
	for w := range m {
		if strings.HasPrefix(w, string(l.buf[:l.n])) {
			return true
		}
	}
	return false
}

func (l *lowered) in(m map[string]struct{}) bool {
	_, ok := m[string(l.buf[:l.n])]
	return ok
}
