package reproduce

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"assay/lab/paper"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// job is the input of the child process of one run: libtorch has one random generator and one set of threads per
// process, and a crash inside it must not end the other runs.
type job struct {
	Spec     paper.Spec              `json:"spec"`
	Backbone string                  `json:"backbone"` // checkpoint directory
	Data     string                  `json:"data"`     // directory of the data sets
	Compute  localmodel.ComputeFlags `json:"compute"`
}

// event is one line of output of such a process: progress, or at the end the record.
type event struct {
	Done   int           `json:"done,omitempty"`
	Total  int           `json:"total,omitempty"`
	Stage  string        `json:"stage,omitempty"`
	Loss   float64       `json:"loss,omitempty"`
	Record *paper.Record `json:"record,omitempty"`
}

// startRuns checks what all runs share and returns the function that does one.
func startRuns(c *Command) (paper.RunFunc, error) {
	dir, err := localmodel.Find("--backbone", c.Backbone)
	if err != nil {
		return nil, err
	}
	base, err := checkpoint.Open(dir)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--backbone: %w", err))
	}
	if err := base.Close(); err != nil {
		return nil, err
	}
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	threads := c.Threads
	if threads == 0 {
		threads = max(runtime.GOMAXPROCS(0)/max(c.Jobs, 1), 1)
	}
	run := func(ctx context.Context, s paper.Spec, progress func(done, total int, stage string, loss float64)) (paper.Record, error) {
		if s.Judge() {
			return c.judge(ctx, s, data, progress)
		}
		j := job{Spec: s, Backbone: dir, Data: data, Compute: localmodel.ComputeFlags{
			Precision: c.Precision, Device: c.Device, Threads: threads,
		}}
		return runChild(ctx, program, j, progress)
	}
	return run, nil
}

// runChild does a run in a child process.
func runChild(ctx context.Context, program string, j job, progress func(done, total int, stage string, loss float64)) (paper.Record, error) {
	input, err := json.Marshal(j)
	if err != nil {
		return paper.Record{}, err
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "bench", "paper-run", "--log-format", "console")
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS="+strconv.Itoa(j.Compute.Threads))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return paper.Record{}, err
	}
	if err := cmd.Start(); err != nil {
		return paper.Record{}, err
	}
	record, readErr := readEvents(out, progress)
	if err := cmd.Wait(); err != nil {
		return paper.Record{}, errors.Join(ctx.Err(), fmt.Errorf("%w: %s", err, lastLine(log.Bytes())))
	}
	if readErr == nil && record == nil {
		readErr = errors.New("the run ended without a record")
	}
	if readErr != nil {
		return paper.Record{}, readErr
	}
	return *record, nil
}

// readEvents reports progress and returns the record.
func readEvents(out io.Reader, progress func(done, total int, stage string, loss float64)) (record *paper.Record, err error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("the run wrote %.80q: %w", lines.Text(), err)
		}
		if e.Record != nil {
			record = e.Record
			continue
		}
		progress(e.Done, e.Total, e.Stage, e.Loss)
	}
	return record, lines.Err()
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// RunCommand is the child process of Command: it does one run.
type RunCommand struct{}

// Run is called by kong.
func (*RunCommand) Run(a *cli.App) error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return cli.Usage(fmt.Errorf("standard input: %w", err))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	out := json.NewEncoder(a.Stdout)
	record, err := j.run(ctx, a.Log, func(e event) { _ = out.Encode(e) }) // the parent may have exited
	if err != nil {
		return err
	}
	return out.Encode(event{Record: &record})
}
