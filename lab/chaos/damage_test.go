package chaos_test

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// damageReport is a line of a log that reports the loss of stored messages.
type damageReport struct {
	stream   string
	subject  string // "": unknown
	sequence uint64 // 0: any number of them
}

// lossesOfServer are the lines in which nats-server reports that it has lost messages of a stream. Those about the files
// that it makes again from the messages, such as index.db, or that assay does, such as meta.inf, are not among them.
var lossesOfServer = []string{"indexCacheBuf corrupt", "loadBlock error", "checkMsgs:", "Error loading msg",
	"Detected skew", "Cache lookup for sequence", "Partial cache", "Error recreating stream", "Failed restoring partial batch write"}

// reportsOfAssay begin the lines in which assay reports a record that is damaged or missing.
var reportsOfAssay = []string{"a stored record is damaged", "a stored record was damaged", "a streamed response is missing"}

// logLine is a line of a log about a stored message.
type logLine struct {
	Message  string `json:"message"`
	Stream   string `json:"stream"`
	Subject  string `json:"subject"`
	Sequence uint64 `json:"sequence"`
}

// reportOfAssay decodes a line, and tells whether assay reports damage in it.
func reportOfAssay(text string) (line logLine, ok bool) {
	if json.Unmarshal([]byte(text), &line, jsontext.AllowDuplicateNames(true)) != nil { // two components, in lines of the server
		return logLine{}, false
	}
	return line, slices.ContainsFunc(reportsOfAssay, func(prefix string) bool { return strings.HasPrefix(line.Message, prefix) })
}

// damageReports returns what lines report of the streams whose files were damaged. A record that is reported with its
// subject is not reported without. The responses that were lost are known by assay, each with its sequence; what
// nats-server says of their stream explains none.
func damageReports(lines, files []string) (reports []damageReport) {
	var streams []string
	for _, at := range files {
		if stream := streamOf(at); stream != "" && !slices.Contains(streams, stream) {
			streams = append(streams, stream)
		}
	}
	for _, text := range lines {
		line, ok := reportOfAssay(text)
		if ok {
			if slices.Contains(streams, line.Stream) {
				reports = append(reports, damageReport{line.Stream, line.Subject, line.Sequence})
			}
			continue
		}
		if !slices.ContainsFunc(lossesOfServer, func(part string) bool { return strings.Contains(line.Message, part) }) {
			continue
		}
		for _, stream := range streams {
			if stream != queue.StreamResponses && mentions(line.Message, stream) {
				reports = append(reports, damageReport{stream: stream})
			}
		}
	}
	// The more a report says, the sooner it is used.
	slices.SortStableFunc(reports, func(a, b damageReport) int {
		return cmp.Or(compareBool(a.subject == "", b.subject == ""), compareBool(a.sequence == 0, b.sequence == 0))
	})
	var distinct []damageReport
	for _, r := range reports {
		if !slices.ContainsFunc(distinct, func(other damageReport) bool {
			return other.stream == r.stream && other.sequence == r.sequence && (r.subject == "" || r.subject == other.subject) && (r.sequence != 0 || r == other)
		}) {
			distinct = append(distinct, r)
		}
	}
	return distinct
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// mentions reports whether a text contains a name that is not a part of a longer one.
func mentions(text, name string) bool {
	part := func(r byte) bool {
		return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(name)
		if (begin == 0 || !part(text[begin-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		from = end
	}
}

// excuse returns the losses that no report explains, and calls explained with the stream of each other one. A report with
// a sequence explains one loss, and one with a subject only the loss of what is stored there.
func excuse(losses []loss, reports []damageReport, explained func(stream string)) (broken []loss) {
	used := map[damageReport]bool{}
	for _, l := range losses {
		i := slices.IndexFunc(reports, func(r damageReport) bool {
			return slices.Contains(l.streams, r.stream) && !used[r] && (r.subject == "" || l.about == nil || l.about(r.subject))
		})
		if i < 0 {
			broken = append(broken, l)
			continue
		}
		used[reports[i]] = reports[i].sequence != 0
		explained(reports[i].stream)
	}
	return broken
}

// lostLabel is the loss of what is in force of a label.
func lostLabel(key labelKey) loss {
	id, rater := feedback.HashOf(key.id).String(), feedback.HashOf(key.rater).String()
	return loss{what: "label " + key.id + " of " + key.rater, streams: []string{labels.StreamFeedback}, about: func(subject string) bool {
		tokens := strings.Split(subject, ".")
		at := slices.Index(tokens, id)
		return at >= 0 && (at == len(tokens)-1 || tokens[at+1] == rater) // the erasure of the id, or the record of the rater
	}}
}

// aboutVersions reports whether a subject is that of the current version, of the metadata of a version or of its files.
func aboutVersions(subject string) bool {
	return aboutCurrent(subject) || strings.HasPrefix(subject, "$KV."+registry.BucketState+".model.") || strings.HasPrefix(subject, "$O.")
}

func aboutCurrent(subject string) bool { return subject == "$KV."+registry.BucketState+".current" }

// namesDamage reports whether a line of a service that refused to start is an error that names one of the damaged files,
// its stream, or the bucket in it.
func namesDamage(lines, files []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		if !strings.HasPrefix(line, "assay: ") && !strings.Contains(line, `"level":"error"`) && !strings.Contains(line, `"level":"fatal"`) {
			return false
		}
		return slices.ContainsFunc(files, func(at string) bool {
			stream := streamOf(at)
			if stream == "" {
				return mentions(line, strings.TrimPrefix(filepath.ToSlash(at), "/"))
			}
			_, bucket, _ := strings.Cut(stream, "_")
			return mentions(line, stream) || (strings.HasPrefix(stream, "KV_") || strings.HasPrefix(stream, "OBJ_")) && mentions(line, bucket)
		})
	})
}

func TestDamageReports(t *testing.T) {
	files := []string{"/data/nats/jetstream/$G/streams/ASSAY_FEEDBACK/msgs/1.blk", "/data/nats/jetstream/$G/streams/ASSAY_REWARDS/msgs/index.db",
		"/data/nats/jetstream/$G/streams/ASSAY_RESPONSES/msgs/1.blk", "/data/replicas/x/in-flight"}
	reports := damageReports([]string{
		`{"level":"warn","message":"Filestore [ASSAY_REWARDS] Stream state checksum did not match"}`,                                     // made again from the messages
		`{"level":"warn","message":"Filestore [ASSAY_FEEDBACK] Stream state outdated, last block has additional entries, will rebuild"}`, // after every kill
		`{"level":"warn","error":"stream ASSAY_REWARDS: timeout","message":"cannot pull responses from JetStream; retrying"}`,
		`{"level":"error","stream":"KV_ASSAY_STATE","subject":"$KV.ASSAY_STATE.current","sequence":7,"message":"a stored record is damaged: ..."}`, // its files were not damaged
		`{"level":"error","stream":"ASSAY_FEEDBACK","subject":"","sequence":5,"message":"a stored record is damaged: ..."}`,
		`{"level":"error","stream":"ASSAY_FEEDBACK","subject":"a.b","sequence":5,"message":"a stored record was damaged, and is erased: ..."}`,
		`{"level":"error","stream":"ASSAY_FEEDBACK","subject":"","sequence":6,"message":"a stored record is damaged: ..."}`,
		`{"level":"warn","component":"queue","component":"nats-server","message":"Filestore [ASSAY_REWARDS] indexCacheBuf corrupt record state in 1.blk: dlen 1"}`,
		`{"level":"warn","component":"queue","component":"nats-server","message":"  Stream metafile \"/data/nats/jetstream/$G/streams/ASSAY_FEEDBACK/meta.inf\": checksums do not match"}`, // made again by assay
		`{"level":"warn","component":"queue","component":"nats-server","message":"Filestore [ASSAY_RESPONSES] indexCacheBuf corrupt record state in 1.blk: dlen 1"}`,
		`{"level":"error","stream":"ASSAY_RESPONSES","subject":"","sequence":7,"message":"a streamed response is missing, and has no result: ..."}`,
		`not JSON, and ASSAY_FEEDBACK`,
	}, files)
	require.Equal(t, []damageReport{{"ASSAY_FEEDBACK", "a.b", 5}, {"ASSAY_FEEDBACK", "", 6}, {"ASSAY_RESPONSES", "", 7}, {stream: "ASSAY_REWARDS"}}, reports)
	require.Empty(t, damageReports([]string{`{"message":"Filestore [ASSAY_REWARDS_2] loadBlock error: x"}`}, files))
}

// One report explains as many losses as it names, of what it names.
func TestReportsExplainWhatTheyName(t *testing.T) {
	subject := func(id, rater string) string {
		return labels.SubjectFeedback + ".item." + feedback.HashOf(id).String() + "." + feedback.HashOf(rater).String()
	}
	first, second := lostLabel(labelKey{"1", "r"}), lostLabel(labelKey{"2", "r"})
	reward := loss{what: "reward", streams: []string{queue.StreamRewards, queue.StreamResponses}}
	version := loss{what: "version", streams: []string{registry.StreamState}, about: aboutVersions}
	promotion := loss{what: "promotion", streams: []string{registry.StreamState}, about: aboutCurrent}
	of := func(stream, subject string, sequence uint64) damageReport {
		return damageReport{stream, subject, sequence}
	}
	for name, test := range map[string]struct {
		losses  []loss
		reports []damageReport
		broken  []string
	}{
		"no report":                        {[]loss{first}, nil, []string{first.what}},
		"another stream":                   {[]loss{first}, []damageReport{of(queue.StreamRewards, "", 0)}, []string{first.what}},
		"its record":                       {[]loss{first}, []damageReport{of(labels.StreamFeedback, subject("1", "r"), 3)}, nil},
		"another record":                   {[]loss{second}, []damageReport{of(labels.StreamFeedback, subject("1", "r"), 3)}, []string{second.what}},
		"another rater":                    {[]loss{first}, []damageReport{of(labels.StreamFeedback, subject("1", "s"), 3)}, []string{first.what}},
		"its erasure":                      {[]loss{first}, []damageReport{of(labels.StreamFeedback, labels.SubjectFeedback+".erased."+feedback.HashOf("1").String(), 3)}, nil},
		"one sequence":                     {[]loss{first, second}, []damageReport{of(labels.StreamFeedback, "", 3)}, []string{second.what}},
		"two sequences":                    {[]loss{first, second}, []damageReport{of(labels.StreamFeedback, "", 3), of(labels.StreamFeedback, "", 4)}, nil},
		"a subject, then a sequence":       {[]loss{first, second}, []damageReport{of(labels.StreamFeedback, subject("1", "r"), 3), of(labels.StreamFeedback, "", 4)}, nil},
		"an unknown number":                {[]loss{first, second}, []damageReport{of(labels.StreamFeedback, "", 0)}, nil},
		"a reward by its response":         {[]loss{reward}, []damageReport{of(queue.StreamResponses, "", 0)}, nil},
		"metadata of a version":            {[]loss{version}, []damageReport{of(registry.StreamState, "$KV.ASSAY_STATE.model.tiny-2", 3)}, nil},
		"a version by the training":        {[]loss{version}, []damageReport{of(registry.StreamState, "$KV.ASSAY_STATE.training", 3)}, []string{version.what}},
		"a promotion by the current value": {[]loss{promotion}, []damageReport{of(registry.StreamState, "$KV.ASSAY_STATE.current", 3)}, nil},
		"a promotion by a version":         {[]loss{promotion}, []damageReport{of(registry.StreamState, "$KV.ASSAY_STATE.model.tiny-2", 3)}, []string{promotion.what}},
	} {
		explained := 0
		var broken []string
		for _, l := range excuse(test.losses, test.reports, func(string) { explained++ }) {
			broken = append(broken, l.what)
		}
		require.Equal(t, test.broken, broken, name)
		require.Equal(t, len(test.losses)-len(test.broken), explained, name)
	}
}

func TestRefusalNamesTheDamage(t *testing.T) {
	files := []string{"/data/nats/jetstream/$G/streams/KV_ASSAY_STATE/msgs/1.blk", "/data/replicas/x/in-flight"}
	for line, want := range map[string]bool{
		`assay: stream KV_ASSAY_STATE: cannot be read`:                           true,
		`assay: the bucket ASSAY_STATE is damaged`:                               true,
		`assay: /tmp/1/data/replicas/x/in-flight: unexpected end`:                true,
		`{"level":"error","stream":"KV_ASSAY_STATE","message":"damaged"}`:        true,
		`{"level":"info","stream":"KV_ASSAY_STATE","message":"restored"}`:        false,
		`assay: stream ASSAY_FEEDBACK: cannot be read`:                           false,
		`assay: stream KV_ASSAY_STATE_2: cannot be read`:                         false,
		`assay: context deadline exceeded`:                                       false,
		`panic: runtime error: index out of range in KV_ASSAY_STATE of a caller`: false,
	} {
		require.Equal(t, want, namesDamage([]string{"first", line}, files), line)
	}
}

// What a schedule whose service does not start again has recorded fails it.
func TestRefusalDropsNoViolation(t *testing.T) {
	h := newHistory(map[string]string{"v": "3/avx2"})
	calm := &models{calm: map[string]scores{"v": {"3/avx2", map[string]float64{"a": 0.5}}}}
	sys := &brokenSystem{files: []string{"/data/nats/jetstream/$G/streams/KV_ASSAY_STATE/msgs/1.blk"}}
	c := &checker{ctx: t.Context(), t: t, sys: sys, models: calm, history: h, of: profile{damage: true}}
	h.rewards["v"] = map[string]float64{"a": 0.5000001}
	h.rewards["trained"] = map[string]float64{"a": 0.5}
	h.violate("recorded before")
	h.labels[labelKey{"1", "r"}] = labelState{bag.Violation, "text"}
	h.operate(0, registryInput{kind: "read"}, h.now(), registryOutput{known: true, version: "never promoted"})
	c.afterRefusal([]string{"assay: timeout"})
	c.excuse()
	require.Len(t, h.violations, 4)
	for i, want := range []string{"recorded before", "names none of the damaged files", "version v computed 0.5000001", "not linearizable"} {
		require.Contains(t, h.violations[i], want)
	}
}

// brokenSystem is a service that does not run.
type brokenSystem struct {
	system
	files []string
}

func (s *brokenSystem) damaged() []string { return s.files }
func (s *brokenSystem) reports() []string { return nil }

// An abandoned client does not complain that its operation was never acknowledged.
func TestAbandonedClients(t *testing.T) {
	c := &clients{history: newHistory(nil), stop: func() {}}
	c.unacknowledged("a response was never acknowledged")
	require.Len(t, c.history.violations, 1)
	c.mu.Lock()
	c.abandoned = true
	c.mu.Unlock()
	c.unacknowledged("a response was never acknowledged")
	require.Len(t, c.history.violations, 1)
}

func TestRewardsAreComparedBitByBit(t *testing.T) {
	const numerics = "3/avx2/fp32/0"
	h := newHistory(map[string]string{"exact": numerics})
	record := func(version, numerics string, reward float64) {
		h.scored("test", rewardmodel.ModelInfo{Version: version, Numerics: numerics}, "text", reward)
	}
	record("exact", numerics, 0.5)
	record("exact", numerics, 0.5)
	record("exact", "", 0.5) // of a release that does not name them
	record("rounded", "", 0.5)
	record("rounded", "", 0.50001)
	h.computed("exact", scores{numerics, map[string]float64{"text": 0.5}})
	h.computed("rounded", scores{"", map[string]float64{"text": 0.50001}})
	require.Empty(t, h.violations)
	require.Equal(t, 1, h.numbers["texts compared with a calm run, bit by bit"])
	for _, wrong := range []func(){
		func() { record("exact", numerics, 0.50000001) },
		func() { record("exact", "", 0.50000001) },
		func() { record("exact", "3/avx512/fp32/0", 0.5) },
		func() { record("rounded", "", 0.51) },
		func() { h.computed("exact", scores{numerics, map[string]float64{"text": 0.50000001}}) },
		func() { h.computed("rounded", scores{numerics, map[string]float64{"text": 0.50001}}) },
		func() { h.computed("exact", scores{numerics, nil}) },
	} {
		h.violations = nil
		wrong()
		require.Len(t, h.violations, 1)
	}
}

func TestEachResponseHasOneAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		rewards     map[string][]uint64
		dead        map[string][]queue.Reason
		deaths      int
		modelFailed bool
		wrong       int
		lost        int
	}{
		"a reward":                                    {map[string][]uint64{"a": {1}}, nil, 0, false, 0, 0},
		"nothing":                                     {nil, nil, 5, true, 0, 1},
		"two rewards":                                 {map[string][]uint64{"a": {1, 1}}, nil, 0, false, 1, 0},
		"two rewards of two responses":                {map[string][]uint64{"a": {1, 2}}, nil, 0, false, 1, 0},
		"crash after four deaths":                     {nil, map[string][]queue.Reason{"a": {queue.ReasonCrash}}, 4, false, 0, 0},
		"crash after three deaths":                    {nil, map[string][]queue.Reason{"a": {queue.ReasonCrash}}, 3, false, 2, 0},
		"more crashes than deaths in isolation":       {nil, map[string][]queue.Reason{"a": {queue.ReasonCrash}, "b": {queue.ReasonCrash}}, 4, false, 1, 0},
		"crashes after six deaths":                    {nil, map[string][]queue.Reason{"a": {queue.ReasonCrash}, "b": {queue.ReasonCrash}}, 6, false, 0, 0},
		"a reward and a crash":                        {map[string][]uint64{"a": {1}}, map[string][]queue.Reason{"a": {queue.ReasonCrash}}, 4, false, 1, 0},
		"model that failed":                           {nil, map[string][]queue.Reason{"a": {queue.ReasonModel}}, 1, true, 0, 0},
		"a reward and model, which is documented":     {map[string][]uint64{"a": {1}}, map[string][]queue.Reason{"a": {queue.ReasonModel}}, 1, true, 0, 0},
		"model that did not fail":                     {nil, map[string][]queue.Reason{"a": {queue.ReasonModel}}, 1, false, 1, 0},
		"expired":                                     {nil, map[string][]queue.Reason{"a": {queue.ReasonExpired}}, 5, true, 1, 0},
		"two dead letters":                            {nil, map[string][]queue.Reason{"a": {queue.ReasonModel, queue.ReasonModel}}, 1, true, 1, 0},
		"a dead letter of what nobody published":      {map[string][]uint64{"a": {1}}, map[string][]queue.Reason{"x": {queue.ReasonModel}}, 1, true, 1, 0},
		"a dead letter of an unacknowledged response": {map[string][]uint64{"a": {1}}, map[string][]queue.Reason{"b": {queue.ReasonModel}}, 1, true, 0, 0},
	} {
		h := newHistory(nil)
		h.published["a"], h.attempted["a"], h.attempted["b"] = "text", "text", "text"
		h.answered(answers{rewards: test.rewards, dead: test.dead}, test.deaths, test.modelFailed)
		require.Len(t, h.violations, test.wrong, "%s: %v", name, h.violations)
		require.Len(t, h.losses, test.lost, name)
	}

	for _, test := range []struct {
		of    []uint64
		wrong int
	}{{[]uint64{1}, 0}, {[]uint64{1, 2}, 0}, {[]uint64{1, 1}, 1}, {[]uint64{1, 2, 1}, 1}} {
		h := newHistory(nil)
		h.published["a"], h.attempted["a"] = "text", "text"
		h.answered(answers{rewards: map[string][]uint64{"a": test.of}, forgetful: true}, 0, false)
		require.Len(t, h.violations, test.wrong, "a clock jumped: %v", test.of)
	}
}
