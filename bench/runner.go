package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel/eval"
)

// Config is what a run of the benchmark is told.
type Config struct {
	Lab         Lab
	Servers     []Server
	Fronts      []string // names of those asked; none: all
	Cases       func(context.Context, Model) ([]Case, error)
	Repetitions int
	Threads     int
	Cores       int           // that may be used, for the record
	Limit       time.Duration // of a case; 0: none
	StartLimit  time.Duration // of a server's start
	Assay       string        // binary
	Versions    map[string]string
	Progress    func(Record)
}

// Run measures what the records do not have yet: repetition by repetition, model by model, server by server, in
// reverse order every other time. A server that does not start leaves a record that says why. Run fails when it is told
// to stop, and where it cannot work at all.
func Run(ctx context.Context, c Config, models []Model, records *Records) error {
	if _, err := c.Lab.scripts(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Lab.path("logs"), 0o755); err != nil {
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
				t := turn{Config: c, server: s, model: m, repetition: repetition + 1, records: records, proc: newProc()}
				if err := t.run(ctx, cases); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// turn is one server's in one repetition.
type turn struct {
	Config
	server     Server
	model      Model
	repetition int
	records    *Records
	proc       proc
	at         place
	process    *process
}

// job is a case through a front.
type job struct {
	front
	Case
	key Key
}

func (t *turn) run(ctx context.Context, cases []Case) error {
	jobs := t.pending(cases)
	if len(jobs) == 0 {
		return nil
	}
	err := t.start(ctx)
	if t.process != nil {
		defer t.process.stop(20 * time.Second)
	}
	if t.at.scratch != "" {
		defer os.RemoveAll(t.at.scratch)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		failed := t.record(jobs[0].key)
		failed.Case, failed.Front, failed.Error = "start", "", err.Error()
		return t.keep(failed)
	}
	for _, j := range jobs {
		if err := t.measure(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// pending are the measurements that no record has.
func (t *turn) pending(cases []Case) []job {
	var jobs []job
	for _, c := range cases {
		work := Digest(c.Work)
		for _, f := range t.server.fronts {
			key := Key{t.model.Name, t.server.Name, f.name, c.Name, work, t.Threads, t.repetition}
			if (len(t.Fronts) == 0 || slices.Contains(t.Fronts, f.name)) && !t.records.Has(key) {
				jobs = append(jobs, job{f, c, key})
			}
		}
	}
	return jobs
}

// start prepares and starts the server, and waits until it serves.
func (t *turn) start(ctx context.Context) (err error) {
	t.at = place{model: t.model, threads: t.Threads, assay: t.Assay, scripts: t.Lab.path("peers")}
	if t.server.env != "" {
		if t.at.python, err = t.Lab.environment(ctx, t.server.env); err != nil {
			return err
		}
	}
	if t.server.export {
		if t.at.onnx, err = t.Lab.exported(ctx, t.at.python, t.model); err != nil {
			return err
		}
	}
	if t.at.scratch, err = os.MkdirTemp("", "assay-bench-*"); err != nil {
		return err
	}
	for _, port := range []*int{&t.at.port, &t.at.nats} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	t.process, err = start(command{
		Args: t.server.args(t.at), Env: environment(t.Threads),
		Log: t.Lab.path("logs", t.server.Name+"-"+t.model.Name+".log"),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.StartLimit, fmt.Errorf("not ready after %v", t.StartLimit))
	defer cancel()
	healthy, err := t.process.ready(ctx, fmt.Sprintf("http://127.0.0.1:%d%s", t.at.port, t.server.ready), pollEvery)
	if err == nil && t.server.env != "" {
		t.Versions, err = t.server.versions(healthy)
	}
	return err
}

// warmUp has the front answer a little of the case, so that no measurement pays for what is done once.
func (t *turn) warmUp(ctx context.Context, to asker, j job) error {
	const most = 16
	part := j.Case
	part.Work = part.Work[:max(1, min(most, len(part.Work)/4))]
	part.Size, part.Concurrency = min(part.Size, len(part.Work)), min(part.Concurrency, 4)
	_, err := run(ctx, to, j.codec, part, 0)
	return err
}

func (t *turn) measure(ctx context.Context, j job) error {
	record := t.record(j.key)
	to, err := j.open(t.at, j.Concurrency)
	if err != nil {
		record.Error = err.Error()
		return t.keep(record)
	}
	defer to.Close()
	if err := t.warmUp(ctx, to, j); err != nil {
		return err
	}
	resetPeak(t.process.cmd.Process.Pid)
	before, err := t.meter()
	if err != nil {
		record.Error = err.Error() + t.process.lastWords()
		return t.keep(record)
	}
	load, err := run(ctx, to, j.codec, j.Case, t.Limit)
	if err != nil {
		return err
	}
	after, err := t.meter()
	if err != nil {
		record.Error = err.Error() + t.process.lastWords()
		return t.keep(record)
	}
	record.fill(t.model.Shape.Total(load.Answered), load)
	after.since(before, &record)
	if j.Judged {
		if record.Agreement, err = t.agreement(j, load); err != nil {
			return err
		}
	}
	return t.keep(record)
}

func (t *turn) record(key Key) Record {
	return Record{Key: key, Date: time.Now().UTC().Truncate(time.Second), Processor: t.proc.processor(), Cores: t.Cores, Versions: t.Versions}
}

func (t *turn) keep(r Record) error {
	t.Progress(r)
	return t.records.Add(r)
}

func (r *Record) fill(total Total, l Load) {
	r.Failed, r.Requests, r.Responses = l.Failed, len(l.Latencies), len(l.Answered)
	if l.LastError != nil {
		r.Error = l.LastError.Error()
	}
	r.Utterances, r.Tokens, r.GFLOP = total.Utterances, total.Tokens, total.FLOP/1e9
	r.Seconds = l.Elapsed.Seconds()
	r.P50, r.P99 = 1000*l.Percentile(50).Seconds(), 1000*l.Percentile(99).Seconds()
}

// meter is what server, loader and machine have used.
type meter struct {
	server          usage
	loader, machine time.Duration
}

func (t *turn) meter() (m meter, err error) {
	if m.server, err = t.proc.group(t.process.cmd.Process.Pid); err != nil {
		return m, err
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return m, err
	}
	m.loader = time.Duration(own.Utime.Nano() + own.Stime.Nano())
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

// agreement compares the ranks of the scores with the reference's. The first server that scores all of a work gives the
// reference, which later runs find in the lab: Reference itself comes first among Servers.
func (t *turn) agreement(j job, l Load) (*float64, error) {
	path := t.Lab.path(fmt.Sprintf("scores-%s-%s.json", t.model.Name, j.key.Work))
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if t.server.Name != Reference || slices.Contains(l.Scored, false) {
			return nil, nil
		}
		text, err = json.Marshal(l.Scores)
		return nil, errors.Join(err, os.WriteFile(path, text, 0o644))
	}
	var reference []float64
	if err = errors.Join(err, json.Unmarshal(text, &reference)); err != nil {
		return nil, err
	}
	var a, b []float64
	for i, ok := range l.Scored {
		if ok && i < len(reference) {
			a, b = append(a, reference[i]), append(b, l.Scores[i])
		}
	}
	if rho := eval.Spearman(a, b); !math.IsNaN(rho) {
		return &rho, nil
	}
	return nil, nil
}
