package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/internal/durable"
	"assay/queue"
	"assay/rewardmodel/feedback"
	"assay/sidecar/cli"
)

// FeedbackStore are the commands of "assay feedback" that read and write the streams directly, over NATS.
type FeedbackStore struct {
	Verify feedbackVerify `cmd:"" help:"Verify the checksum of every stored label, over NATS."`
	Export feedbackExport `cmd:"" help:"Write all labels to a file, with checksums, over NATS."`
	Import feedbackImport `cmd:"" help:"Store the labels of an export, over NATS."`
}

// storeFlags specify the NATS server that has the labels.
type storeFlags struct {
	DataDir       string `default:"${data_dir}" placeholder:"DIR" help:"Data directory of a private service on this machine, for its token (${default})."`
	cli.NATSFlags `group:"NATS:"`
}

// openTimeout is how long a server may be missing: a service waits for it, and a command must end.
const openTimeout = time.Minute

// open connects to the server, on which it creates the streams that are missing.
func (f storeFlags) open(a *cli.App) (*queue.Queue, error) {
	if f.NatsURL == "" {
		return nil, cli.Usage(errors.New("--nats-url is missing; give the URL of the NATS server, for example nats://127.0.0.1:4222 of assay serve"))
	}
	log := a.Log.Level(max(a.Log.GetLevel(), zerolog.WarnLevel))
	ctx, cancel := context.WithTimeout(a.Context, openTimeout)
	defer cancel()
	q, err := queue.Open(ctx, queue.Config{Conn: f.PrivateConfig(f.DataDir)}, log, prometheus.NewRegistry())
	return q, cli.NameNATSFlags(err)
}

// errDamagedLabels makes a command exit with a failure after it has printed its report.
func errDamagedLabels(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d damaged records; import an export", n)
}

func printJSON(a *cli.App, value any) error {
	out, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(append(out, '\n'))
	return err
}

type feedbackVerify struct{ storeFlags }

// Help is shown by --help.
func (*feedbackVerify) Help() string {
	return `Example:

    assay feedback verify --nats-url nats://127.0.0.1:4222

Reads every stored label and prints how many are intact, have no checksum (of earlier releases), or are damaged, with the
sequences of the latter. Exits with 1 if a record is damaged.`
}

// Run is called by kong.
func (c *feedbackVerify) Run(a *cli.App) error {
	q, err := c.open(a)
	if err != nil {
		return err
	}
	defer q.Close(a.Context)
	ctx, stop := a.UntilSignal()
	defer stop()
	v, err := q.Labels().Verify(ctx)
	if err != nil {
		return err
	}
	return errors.Join(printJSON(a, v), errDamagedLabels(v.DamagedCount))
}

type feedbackExport struct {
	Path string `arg:"" help:"File to create, or directory in which to create a file named after the time."`
	Keep int    `placeholder:"N" help:"Remove all but the newest N exports of the directory (0: keep all)."`
	storeFlags
}

// Names of the exports in a directory, which sort by time.
const (
	exportPrefix, exportSuffix = "feedback-", ".assay"
	exportTime                 = "20060102T150405Z"
)

// Help is shown by --help.
func (*feedbackExport) Help() string {
	return `Example:

    assay feedback export /backup --keep 14 --nats-url nats://127.0.0.1:4222

Writes all labels with their texts, which labels were withdrawn and which responses were erased. Each line has a
checksum, and the last line one of all lines. A file exists once it is complete and synced; none is replaced. Exits with
1 if a record is damaged; the file then has all others, and no earlier export is removed.`
}

// Run is called by kong.
func (c *feedbackExport) Run(a *cli.App) error {
	path, dir := c.Path, ""
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir, path = path, filepath.Join(path, exportPrefix+time.Now().UTC().Format(exportTime)+exportSuffix)
	}
	if _, err := os.Lstat(path); err == nil {
		return cli.Usage(fmt.Errorf("%s exists; give another name, or a directory", path))
	}
	q, err := c.open(a)
	if err != nil {
		return err
	}
	defer q.Close(a.Context)
	ctx, stop := a.UntilSignal()
	defer stop()
	if dir != "" {
		durable.RemoveLeftovers(dir, "."+exportPrefix) // of exports that were killed: their names are never written again
	}
	var v feedback.Verification
	err = durable.WriteTo(path, 0o600, func(w io.Writer) (err error) {
		v, err = q.Labels().Export(ctx, w)
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(printJSON(a, v), errDamagedLabels(v.DamagedCount)); err != nil {
		return err
	}
	if dir == "" || c.Keep <= 0 {
		return nil
	}
	return removeOldExports(dir, c.Keep)
}

// removeOldExports removes all but the newest exports that were named after their time from a directory.
func removeOldExports(dir string, keep int) error {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	exports := slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		_, err := time.Parse(exportPrefix+exportTime+exportSuffix, e.Name())
		return err != nil || !e.Type().IsRegular()
	})
	for _, e := range exports[:max(len(exports)-keep, 0)] {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

type feedbackImport struct {
	File string `arg:"" help:"File that assay feedback export wrote."`
	storeFlags
}

// Help is shown by --help.
func (*feedbackImport) Help() string {
	return `Example:

    assay feedback import labels.assay --nats-url nats://127.0.0.1:4222

Verifies the whole file before it stores anything. Labels and withdrawals that are stored stay as they are, and those of
the file count as duplicates. Replaces damaged labels. Erases the responses that were erased before the export.`
}

// Run is called by kong.
func (c *feedbackImport) Run(a *cli.App) error {
	file, err := os.Open(c.File)
	if err != nil {
		return cli.Usage(err)
	}
	defer file.Close()
	q, err := c.open(a)
	if err != nil {
		return err
	}
	defer q.Close(a.Context)
	ctx, stop := a.UntilSignal()
	defer stop()
	imported, err := q.Labels().Import(ctx, file)
	if imported != (feedback.Imported{}) || err == nil {
		err = errors.Join(err, printJSON(a, imported))
	}
	return err
}
