package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel/eval"
)

// Config specifies a run of the benchmark.
type Config struct {
	Dir         Dir
	Servers     []Server
	Protocols   []string // names of those measured; none: all
	Cases       func(context.Context, Model) ([]Case, error)
	Sentences   []string // that a quantization is calibrated with; none of them is in a case
	Repetitions int
	Threads     int
	Cores       int           // that may be used, for the record
	Limit       time.Duration // of a case; 0: none
	StartLimit  time.Duration // of a server's start
	Assay       string        // binary
	Versions    map[string]string
	Progress    func(Record)
}

// Run measures what the records lack: repetition by repetition, model by model, server by server, in reverse order
// every other time. A server that does not start leaves a record with the error. Run fails when ctx is done, and where
// the directory or the records cannot be written.
func Run(ctx context.Context, c Config, models []Model, records *Records) error {
	if _, err := c.Dir.scripts(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir.path("logs"), 0o755); err != nil {
		return err
	}
	for repetition := range c.Repetitions {
		for _, m := range models {
			cases, err := c.Cases(ctx, m)
			if err != nil {
				return err
			}
			servers := slices.Clone(c.Servers)
			if repetition%2 == 1 {
				slices.Reverse(servers)
			}
			for _, s := range servers {
				t := session{Config: c, server: s, model: m, repetition: repetition + 1, records: records, proc: newProc()}
				if err := t.run(ctx, cases); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// session measures one server in one repetition.
type session struct {
	Config
	server     Server
	model      Model
	repetition int
	records    *Records
	proc       proc
	target     target
	process    *process
}

// job is a case over a protocol.
type job struct {
	protocol
	Case
	key Key
}

func (t *session) run(ctx context.Context, cases []Case) error {
	jobs := t.pending(cases)
	if len(jobs) == 0 {
		return nil
	}
	err := t.start(ctx)
	if t.process != nil {
		defer t.process.stop(20 * time.Second)
	}
	if t.target.scratch != "" {
		defer os.RemoveAll(t.target.scratch)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		failed := t.record(jobs[0].key)
		failed.Case, failed.Protocol, failed.Error = "start", "", err.Error()
		return t.save(failed)
	}
	for _, j := range jobs {
		if err := t.measure(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// pending lists the measurements that no record has.
func (t *session) pending(cases []Case) []job {
	var jobs []job
	for _, c := range cases {
		work := Digest(c.Work)
		for _, f := range t.server.protocols {
			key := Key{t.model.Name, t.server.Name, f.name, c.Name, work, t.Threads, t.repetition}
			if (len(t.Protocols) == 0 || slices.Contains(t.Protocols, f.name)) && !t.records.Has(key) {
				jobs = append(jobs, job{f, c, key})
			}
		}
	}
	return jobs
}

// start prepares and starts the server, and waits until it is ready.
func (t *session) start(ctx context.Context) (err error) {
	t.target = target{model: t.model, threads: t.Threads, assay: t.Assay, scripts: t.Dir.path("python")}
	if t.server.env != "" {
		if t.target.python, err = t.Dir.environment(ctx, t.server.env); err != nil {
			return err
		}
	}
	if t.server.exports != "" {
		if t.target.exported, err = t.Dir.exported(ctx, t.target.python, t.server, t.model, t.Sentences); err != nil {
			return err
		}
	}
	if t.target.scratch, err = os.MkdirTemp("", "assay-bench-*"); err != nil {
		return err
	}
	for _, port := range []*int{&t.target.port, &t.target.nats} {
		if *port, err = FreePort(); err != nil {
			return err
		}
	}
	t.process, err = start(command{
		Args: t.server.args(t.target), Env: environment(t.Threads),
		Log: t.Dir.path("logs", t.server.Name+"-"+t.model.Name+".log"),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.StartLimit, fmt.Errorf("not ready after %v", t.StartLimit))
	defer cancel()
	healthy, err := t.process.ready(ctx, fmt.Sprintf("http://127.0.0.1:%d%s", t.target.port, t.server.ready), pollEvery)
	if err == nil && t.server.env != "" {
		t.Versions, err = t.server.versions(healthy)
	}
	return err
}

// warmUp sends a part of the case, so that no measurement includes what a server does once.
func (t *session) warmUp(ctx context.Context, to load.Transport, j job) error {
	const most = 16
	part := j.Case
	part.Work = part.Work[:max(1, min(most, len(part.Work)/4))]
	part.Size, part.Concurrency = min(part.Size, len(part.Work)), min(part.Concurrency, 4)
	_, err := scoreCase(ctx, to, j.codec, part, 0)
	return err
}

func (t *session) measure(ctx context.Context, j job) error {
	record := t.record(j.key)
	to, err := j.open(t.target, j.Concurrency)
	if err != nil {
		record.Error = err.Error()
		return t.save(record)
	}
	defer to.Close()
	if err := t.warmUp(ctx, to, j); err != nil {
		return err
	}
	resetPeak(t.process.cmd.Process.Pid)
	before, err := t.meter()
	if err != nil {
		record.Error = err.Error() + t.process.logTail()
		return t.save(record)
	}
	result, err := scoreCase(ctx, to, j.codec, j.Case, t.Limit)
	if err != nil {
		return err
	}
	after, err := t.meter()
	if err != nil {
		record.Error = err.Error() + t.process.logTail()
		return t.save(record)
	}
	record.fill(t.model.Shape.Total(result.answered), result)
	after.since(before, &record)
	if j.Ranked {
		if record.Agreement, err = t.agreement(j, result); err != nil {
			return err
		}
	}
	return t.save(record)
}

func (t *session) record(key Key) Record {
	return Record{Key: key, Date: time.Now().UTC().Truncate(time.Second), Processor: t.proc.processor(), Cores: t.Cores, Versions: t.Versions}
}

func (t *session) save(r Record) error {
	t.Progress(r)
	return t.records.Add(r)
}

func (r *Record) fill(total Total, l caseResult) {
	r.Failed, r.Requests, r.Responses = l.Failed, len(l.Latencies), len(l.answered)
	if l.LastError != nil {
		r.Error = l.LastError.Error()
	}
	r.Utterances, r.Tokens, r.GFLOP = total.Utterances, total.Tokens, total.FLOP/1e9
	r.Seconds = l.Elapsed.Seconds()
	r.P50, r.P99 = stats.Milliseconds(l.Percentile(50)), stats.Milliseconds(l.Percentile(99))
}

// meter holds the CPU time that server, loader and machine have used.
type meter struct {
	server          usage
	loader, machine time.Duration
}

func (t *session) meter() (m meter, err error) {
	if m.server, err = t.proc.group(t.process.cmd.Process.Pid); err != nil {
		return m, err
	}
	if m.loader, err = OwnCPU(); err != nil {
		return m, err
	}
	m.machine, err = t.proc.machine()
	return m, err
}

func (m meter) since(before meter, r *Record) {
	r.CPU = (m.server.CPU - before.server.CPU).Seconds()
	r.ModelCPU = min(r.CPU, (m.server.Model - before.server.Model).Seconds()) // it is read a moment later
	r.LoaderCPU = (m.loader - before.loader).Seconds()
	r.OtherCPU = max(0, (m.machine-before.machine).Seconds()-r.CPU-r.LoaderCPU)
	r.Peak = m.server.Peak
}

// agreement compares the ranks of the scores with those of the reference. Reference comes first among Servers; its
// scores of a work are stored in the directory, where later runs find them.
func (t *session) agreement(j job, l caseResult) (*float64, error) {
	path := t.Dir.path(fmt.Sprintf("scores-%s-%s.json", t.model.Name, j.key.Work))
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if t.server.Name != Reference || slices.Contains(l.scored, false) {
			return nil, nil
		}
		text, err = json.Marshal(l.scores)
		return nil, errors.Join(err, os.WriteFile(path, text, 0o644))
	}
	var reference []float64
	if err = errors.Join(err, json.Unmarshal(text, &reference)); err != nil {
		return nil, err
	}
	var a, b []float64
	for i, ok := range l.scored {
		if ok && i < len(reference) {
			a, b = append(a, reference[i]), append(b, l.scores[i])
		}
	}
	if rho := eval.Spearman(a, b); !math.IsNaN(rho) {
		return &rho, nil
	}
	return nil, nil
}
