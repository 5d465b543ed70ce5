package live

import (
	"context"
	"errors"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
	"assay/sidecar/localmodel"
)

// Command groups the benchmarks of live scoring.
type Command struct {
	Stops   stopsCmd   `cmd:"" help:"Count in which sentence violating responses are stopped, and how many compliant ones are, and compare with a scanner of chunks."`
	Latency latencyCmd `cmd:"" help:"Score many streams at the speed of their models and measure the delay of verdicts, the CPU time, and batch scoring alongside."`
	Flood   floodCmd   `cmd:"" help:"Open thousands of live sessions of a service at the same time while honest clients use it, and count those without a response."`
}

// token is a word with the white space before it, as most tokenizers of language models cut it. At the end of a text it
// may be white space only.
var token = regexp.MustCompile(`\s*\S+|\s+$`)

// tokensOf cuts text into pieces that are its concatenation.
func tokensOf(text string) []string { return token.FindAllString(text, -1) }

// scorerFlags open the model in this process.
type scorerFlags struct {
	localmodel.Flags `group:"Model:"`
	MaxInstances     int `default:"${max_instances}" help:"Maximum instances scored per response, as of assay serve. A response must still violate at this length to be stopped."`
}

// open loads the model, which reports to metrics unless they are nil. The caller calls closeAll.
func (f scorerFlags) open(ctx context.Context, cacheBytes int64, metrics prometheus.Registerer) (s *localmodel.Loaded, closeAll func() error, err error) {
	opened, err := f.Config().Open()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := opened.Load(ctx, rewardmodel.ScorerConfig{
		CacheBytes: cacheBytes, MaxInstances: f.MaxInstances, MaxQueueTokens: localmodel.UnboundedQueue,
	}, metrics)
	if err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	return loaded, func() error { return errors.Join(loaded.Close(), opened.Close()) }, nil
}
