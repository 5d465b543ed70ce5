package retrain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"assay/rewardmodel/feedback"
	"assay/rewardmodel/gate"
)

// Policy decides when to train. It has only settings: a decision is a function of
// the Situation, and reads no clock.
//
// A training run starts on request, or automatically when one of the triggers fires:
// new bags, disagreement, drift and the schedule, in this order. Each waits for the
// cool-down and for enough data for both training and the gate.
type Policy struct {
	// Auto lets training runs start without a request.
	Auto bool
	// MinBags new bags start a training run when MinEach of them have each
	// label; with 0 no number of bags does. MinEach bags of each label is also
	// the minimum for any training run. Of a model with several aspects, one of
	// them must reach the minimums for each label.
	MinBags, MinEach int
	// Cooldown is the time between the end of a training run and the start of the
	// next. Each failure in a row doubles it, up to a day.
	Cooldown time.Duration
	// Drift is the Kolmogorov-Smirnov distance in (0,1) above which the
	// distribution of the scores, of any aspect, has drifted; 0: off. It requires DriftMin recent
	// scores.
	Drift    float64
	DriftMin int
	// Disagreement is the maximum share in (0,1) of new labels that contradict the
	// decision of the model; 0: off. It requires DisagreementMin labels.
	Disagreement    float64
	DisagreementMin int
	// Every is the time from one training run to the next; 0: no schedule.
	Every time.Duration
	// HoldoutShare is the share of bags in (0,0.5] that is never trained on.
	// MinHeldOut is the minimum of them for each label that the gate needs.
	HoldoutShare float64
	MinHeldOut   int
	// MaxSenderShare in (0,1] is the maximum share of one sender in the responses of
	// either label that a model is trained on, and in those that a promotion adds to the
	// hold-out; 1: off. Further responses of the sender are omitted.
	MaxSenderShare float64
}

// DefaultPolicy returns the default settings of the service.
func DefaultPolicy() Policy {
	return Policy{
		Auto: true, MinBags: 200, MinEach: 20, Cooldown: 10 * time.Minute,
		Drift: 0.2, DriftMin: 500, Disagreement: 0.3, DisagreementMin: 100,
		HoldoutShare: 0.2, MinHeldOut: gate.MinBags, MaxSenderShare: 1,
	}
}

// SettingError reports a field of a Policy that is out of range.
type SettingError struct {
	Field   string // name of the field, such as "MinBags"
	Problem string // its value and the range
}

func (e *SettingError) Error() string { return e.Field + " " + e.Problem }

func outOfRange(field string, value any, format string, args ...any) error {
	return &SettingError{Field: field, Problem: fmt.Sprintf("is %v; %s", value, fmt.Sprintf(format, args...))}
}

// Validate returns a *SettingError for the first field that is out of range.
func (p Policy) Validate() error {
	switch {
	case p.MinBags < 0:
		return outOfRange("MinBags", p.MinBags, "use 0 (off) or more")
	case p.MinEach < 1:
		return outOfRange("MinEach", p.MinEach, "use at least 1")
	case p.MinBags > 0 && p.MinBags < 2*p.MinEach:
		return outOfRange("MinBags", p.MinBags, "use at least %d, MinEach of both labels, or 0 (off)", 2*p.MinEach)
	case p.Cooldown < 0:
		return outOfRange("Cooldown", p.Cooldown, "use 0 or more")
	case !(p.Drift >= 0 && p.Drift < 1):
		return outOfRange("Drift", p.Drift, "use a distance in (0,1), or 0 (off)")
	case p.Drift > 0 && (p.DriftMin < 10 || p.DriftMin > WindowSize):
		return outOfRange("DriftMin", p.DriftMin, "use 10 to %d", WindowSize)
	case !(p.Disagreement >= 0 && p.Disagreement < 1):
		return outOfRange("Disagreement", p.Disagreement, "use a share in (0,1), or 0 (off)")
	case p.Disagreement > 0 && (p.DisagreementMin < 1 || p.DisagreementMin > TallySize):
		return outOfRange("DisagreementMin", p.DisagreementMin, "use 1 to %d", TallySize)
	case p.Every < 0:
		return outOfRange("Every", p.Every, "use 0 (off) or more")
	case !(p.HoldoutShare > 0 && p.HoldoutShare <= 0.5):
		return outOfRange("HoldoutShare", p.HoldoutShare, "use a share in (0,0.5]")
	case p.MinHeldOut < 1:
		return outOfRange("MinHeldOut", p.MinHeldOut, "use at least 1: without held-out bags nothing shows that a candidate is no worse")
	case !(p.MaxSenderShare > 0 && p.MaxSenderShare <= 1):
		return outOfRange("MaxSenderShare", p.MaxSenderShare, "use a share in (0,1]; 1: off")
	}
	return nil
}

// Situation is the input of a decision.
type Situation struct {
	Now time.Time
	// Stats counts the bags; its New are those since the last training run that
	// ended with a promotion or a rejection. What a failed one read is still new.
	Stats  feedback.Stats
	Status Status
	// Aspects are the names of the aspects of the current version; nil: it names none.
	Aspects []string
	// Since is when the current version became current. The schedule counts
	// from there until a training run has ended.
	Since        time.Time
	Drift        Drift        // of the scores of the current version
	Disagreement Disagreement // of new labels with the current version
}

// Decision is whether to train in a situation, and why.
type Decision struct {
	Trigger Trigger   // TriggerNone: do not train
	Reason  string    // why to train, with numbers; "" otherwise
	Wait    string    // why not to train, and what is missing; "" otherwise
	Next    time.Time // when the decision changes without new feedback; zero: never
}

// Decide returns whether a training run starts now.
func (p Policy) Decide(s Situation) Decision {
	s = s.withoutFuture()
	d := p.now(s)
	if d.Trigger != TriggerNone {
		return d
	}
	cooled, due := p.cooldownEnd(s.Status), p.due(s)
	for _, at := range []time.Time{earlier(cooled, due), later(cooled, due)} {
		if !at.After(s.Now) {
			continue
		}
		s.Now = at
		if p.now(s).Trigger != TriggerNone {
			d.Next = at
			break
		}
	}
	return d
}

// maxAhead is how far a stored time may be in the future: the clocks of replicas differ.
const maxAhead = time.Minute

// withoutFuture drops times that were stored by a clock that was wrong: otherwise the
// cool-down or the schedule would wait until the clock reaches them.
func (s Situation) withoutFuture() Situation {
	latest := s.Now.Add(maxAhead)
	if last := s.Status.Last; last != nil && last.Finished.After(latest) {
		ended := *last
		ended.Finished = time.Time{}
		s.Status.Last = &ended
	}
	if s.Since.After(latest) {
		s.Since = time.Time{}
	}
	return s
}

// now decides without looking ahead.
func (p Policy) now(s Situation) Decision {
	if s.Status.Phase != PhaseIdle && s.Status.Phase != "" {
		return Decision{Wait: fmt.Sprintf("training run %s is in progress (%s); only one runs at a time", s.Status.ID, s.Status.Phase)}
	}
	asked := s.Status.Requested
	if asked == nil && !p.Auto {
		return Decision{Wait: "automatic training is off; start a training run by hand"}
	}
	if missing := p.missing(s); missing != "" {
		if asked != nil {
			missing = fmt.Sprintf("%s requested a training run, but there is not enough data to judge it: %s", cmp.Or(asked.By, "somebody"), missing)
		}
		return Decision{Wait: missing}
	}
	if asked != nil {
		reason := fmt.Sprintf("requested by %s", cmp.Or(asked.By, "somebody"))
		if asked.Reason != "" {
			reason += ": " + asked.Reason
		}
		return Decision{Trigger: TriggerManual, Reason: reason}
	}
	d := p.triggered(s)
	if at := p.cooldownEnd(s.Status); d.Trigger != TriggerNone && s.Now.Before(at) {
		return Decision{Wait: fmt.Sprintf("%s, but the cool-down after training run %s%s ends at %s",
			d.Reason, s.Status.Last.ID, failures(s.Status), at.UTC().Format(time.RFC3339))}
	}
	return d
}

// triggered evaluates the automatic triggers.
func (p Policy) triggered(s Situation) Decision {
	if p.enoughNew(s) {
		return Decision{Trigger: TriggerBags, Reason: fmt.Sprintf("%d new bags, %d of them violations",
			s.Stats.New.Bags, s.Stats.New.Violations)}
	}
	wait := p.missingNew(s)
	if s.Stats.New.Bags < 1 {
		return Decision{Wait: wait}
	}
	// A rejected candidate was trained on the evidence of its time: only labels
	// that it did not see are a reason to train again.
	if last := s.Status.Last; last != nil && last.Result == ResultRejected && s.Stats.New.Bags < p.MinEach {
		return Decision{Wait: fmt.Sprintf("%s; drift, disagreement and the schedule wait for %d after the rejection of %s",
			wait, p.MinEach, last.Version)}
	}
	if d, found := first(s.Disagreement.each(), p.disagrees); found {
		return Decision{Trigger: TriggerDisagreement, Reason: fmt.Sprintf(
			"%d of %d new labels%s contradict the model's decision (%.0f %%, at least %.0f %% with 95 %% confidence; the limit is %.0f %%)",
			d.Against, d.Labels, of(d.Aspect), 100*d.Rate(), 100*d.Lower(), 100*p.Disagreement)}
	}
	if d, found := first(s.Drift.each(), p.drifted); found {
		return Decision{Trigger: TriggerDrift, Reason: fmt.Sprintf(
			"the distribution of the last %d scores%s differs from that of the %d reference scores (Kolmogorov-Smirnov distance %.2f, p = %.1g; the limit is %.2f)",
			d.Recent, of(d.Aspect), d.Reference, d.Distance, d.PValue, p.Drift)}
	}
	if p.Every > 0 && !s.Now.Before(p.due(s)) {
		return Decision{Trigger: TriggerSchedule, Reason: fmt.Sprintf("%v have passed since the last training run, and %d bags are new",
			p.Every, s.Stats.New.Bags)}
	}
	return Decision{Wait: wait}
}

// of names an aspect after a count; "" for that of the whole response.
func of(aspect string) string {
	if aspect == "" {
		return ""
	}
	return " of the aspect " + aspect
}

// first returns the first element for which is holds.
func first[T any](all []T, is func(T) bool) (out T, found bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return out, false
}

// drifted reports whether the scores have drifted, by a relevant and statistically
// significant distance.
func (p Policy) drifted(d Drift) bool {
	return p.Drift > 0 && d.Recent >= p.DriftMin && d.Distance > p.Drift && d.PValue < driftLevel
}

// disagrees reports whether too many labels contradict the model, beyond chance.
func (p Policy) disagrees(d Disagreement) bool {
	return p.Disagreement > 0 && d.Labels >= p.DisagreementMin && d.Lower() > p.Disagreement
}

// missing describes the data that training and gate lack; "": none. Of several
// aspects, one with enough labels is enough.
func (p Policy) missing(s Situation) string {
	if len(s.Aspects) <= 1 {
		return p.missingOf(feedback.AspectStats{Bags: s.Stats.Bags, Violations: s.Stats.Violations,
			HeldOut: s.Stats.HeldOut, HeldOutViolations: s.Stats.HeldOutViolations,
			OverShare: s.Stats.OverShare})
	}
	var missing []string
	for _, aspect := range s.Aspects {
		of := p.missingOf(s.Stats.Aspects[aspect])
		if of == "" {
			return ""
		}
		missing = append(missing, aspect+": "+of)
	}
	return "no aspect has enough labels: " + strings.Join(missing, "; ")
}

// missingOf is missing for one aspect.
func (p Policy) missingOf(st feedback.AspectStats) string {
	violations := st.Violations
	compliant := st.Bags - violations
	if violations < p.MinEach || compliant < p.MinEach {
		return fmt.Sprintf("%d violating and %d compliant bags to train on; %d of each are needed", violations, compliant, p.MinEach) + p.overShare(st.OverShare)
	}
	violations = st.HeldOutViolations
	compliant = st.HeldOut - violations
	if violations < p.MinHeldOut || compliant < p.MinHeldOut {
		return p.missingHeldOut(violations, compliant) + p.overShare(st.OverShare)
	}
	return ""
}

// overShare describes the responses that are omitted because of their sender; "": none.
func (p Policy) overShare(omitted int) string {
	if omitted == 0 {
		return ""
	}
	return fmt.Sprintf("; %d responses are omitted, because no sender may have more than %.3g of either label: "+
		"send labels with at least %.0f tokens of different names", omitted, p.MaxSenderShare, math.Ceil(1/p.MaxSenderShare))
}

// missingHeldOut describes the held-out responses that the gate lacks, and about how
// many labels it takes to get them: only a share of the labels is held out.
func (p Policy) missingHeldOut(violations, compliant int) string {
	var waiting []string
	for _, label := range []struct {
		name string
		have int
	}{{"violations", violations}, {"compliant", compliant}} {
		if missing := p.MinHeldOut - label.have; missing > 0 {
			waiting = append(waiting, fmt.Sprintf("%d of %d %s (about %.0f more labels of that kind)",
				label.have, p.MinHeldOut, label.name, math.Ceil(float64(missing)/p.HoldoutShare)))
		}
	}
	return fmt.Sprintf("waiting for held-out responses: %s; a share of %g of all is held out",
		strings.Join(waiting, ", "), p.HoldoutShare)
}

// enoughNew reports whether there are enough new bags, of both labels in an aspect
// that can be judged.
func (p Policy) enoughNew(s Situation) bool {
	each := func(fresh feedback.NewCounts) bool {
		return min(fresh.Violations, fresh.Bags-fresh.Violations) >= p.MinEach
	}
	if p.MinBags == 0 || s.Stats.New.Bags < p.MinBags {
		return false
	}
	if len(s.Aspects) <= 1 {
		return each(s.Stats.New)
	}
	return slices.ContainsFunc(s.Aspects, func(aspect string) bool {
		st := s.Stats.Aspects[aspect]
		return each(st.New) && p.missingOf(st) == ""
	})
}

func (p Policy) missingNew(s Situation) string {
	fresh := s.Stats.New
	if p.MinBags == 0 {
		return fmt.Sprintf("%d new bags; their number does not start a training run; waiting for another trigger", fresh.Bags) +
			p.overShare(s.Stats.OverShare)
	}
	if len(s.Aspects) <= 1 {
		return fmt.Sprintf("%d of %d new bags (%d violating, %d compliant; at least %d of each)", fresh.Bags, p.MinBags,
			fresh.Violations, fresh.Bags-fresh.Violations, p.MinEach) + p.overShare(s.Stats.OverShare)
	}
	var each []string
	for _, aspect := range s.Aspects {
		st := s.Stats.Aspects[aspect]
		text := fmt.Sprintf("%s: %d violating, %d compliant", aspect, st.New.Violations, st.New.Bags-st.New.Violations)
		if missing := p.missingOf(st); missing != "" {
			text += " (in all " + missing + ")"
		}
		each = append(each, text)
	}
	return fmt.Sprintf("%d of %d new bags (%s; at least %d of each in one aspect)", fresh.Bags, p.MinBags, strings.Join(each, "; "), p.MinEach) +
		p.overShare(s.Stats.OverShare)
}

// maxCooldown bounds the doubling of the cool-down. firstRetry is the minimum
// cool-down after a failure, so that a training run that always fails does not run
// all the time, and after a cancellation, so that the run does not start again
// immediately.
const (
	maxCooldown = 24 * time.Hour
	firstRetry  = time.Minute
)

// cooldownEnd is the end of the cool-down; zero before the first training run.
func (p Policy) cooldownEnd(status Status) time.Time {
	last := status.Last
	if last == nil {
		return time.Time{}
	}
	wait := p.Cooldown
	if last.Failures > 0 {
		wait = max(wait, firstRetry/2)
	}
	if last.Result == ResultCanceled {
		wait = max(wait, firstRetry)
	}
	for range last.Failures {
		if wait >= maxCooldown {
			break
		}
		wait = min(2*wait, maxCooldown)
	}
	return last.Finished.Add(wait)
}

// due is when the schedule starts the next training run; zero without a schedule.
func (p Policy) due(s Situation) time.Time {
	if p.Every == 0 {
		return time.Time{}
	}
	if last := s.Status.Last; last != nil {
		return last.Finished.Add(p.Every)
	}
	if s.Since.IsZero() {
		return time.Time{}
	}
	return s.Since.Add(p.Every)
}

func failures(status Status) string {
	switch n := status.Last.Failures; n {
	case 0:
		if status.Last.Result == ResultCanceled {
			return " (which was canceled)"
		}
		return ""
	case 1:
		return " (which failed)"
	default:
		return fmt.Sprintf(" (failure %d in a row)", n)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
