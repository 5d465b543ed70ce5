package reproduce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"assay/lab/judge"
	"assay/lab/paper"
	"assay/rewardmodel/bag"
	"assay/sidecar/cli"
)

// judgeFlags specify how the runs whose method is llm:NAME reach the model NAME.
type judgeFlags struct {
	JudgeURL       string        `name:"judge-url" placeholder:"URL" help:"OpenAI-compatible server of the methods llm:NAME, such as http://localhost:8000/v1; the key is $$OPENAI_API_KEY."`
	JudgeReasoning bool          `help:"The judge is a reasoning model."`
	JudgeTimeout   time.Duration `default:"1m" help:"Timeout of one reply (${default})."`
}

// judge asks a language model about the test bags, without training.
func (f judgeFlags) judge(ctx context.Context, s paper.Spec, data string, progress func(done, total int, stage string, loss float64)) (paper.Record, error) {
	if f.JudgeURL == "" {
		return paper.Record{}, cli.Usage(errors.New("--judge-url is missing; the methods llm:NAME need a server"))
	}
	j, err := judge.New(judge.Config{
		BaseURL: f.JudgeURL, APIKey: os.Getenv("OPENAI_API_KEY"), Model: strings.TrimPrefix(s.Method, paper.JudgePrefix),
		Reasoning: f.JudgeReasoning, Timeout: f.JudgeTimeout,
		Report: func(done, total int) { progress(done, total, "replies", 0) },
	})
	if err != nil {
		return paper.Record{}, cli.Usage(err)
	}
	_, bags, err := s.MakeBags(data)
	if err != nil {
		return paper.Record{}, err
	}
	began := time.Now()
	texts, labels := make([]string, len(bags)), make([]bag.Label, len(bags))
	record := paper.Record{Threshold: 0.5}
	for i, b := range bags {
		texts[i], labels[i] = judge.Text(b), b.Label
		if b.Label == bag.Violation {
			record.Counts.TestViolation++
		} else {
			record.Counts.TestCompliant++
		}
	}
	verdicts, err := j.Judge(ctx, texts)
	if err != nil {
		return paper.Record{}, err
	}
	scores, unreadable, err := judge.Predictions(verdicts, labels)
	if err != nil {
		return paper.Record{}, err
	}
	metrics, err := paper.Measure(scores, record.Threshold)
	if err != nil {
		return paper.Record{}, err
	}
	record.Metrics = map[string]float64{} // of decisions only: their scores are 0 or 1
	for _, name := range []string{"avg_acc", "f1_violation", "f1_compliant", "recall_violation", "recall_compliant"} {
		if value, ok := metrics[name]; ok {
			record.Metrics[name] = value
		}
	}
	record.Note = fmt.Sprintf("%d of %d replies are unreadable and count as wrong", unreadable, len(bags))
	record.WallSeconds = time.Since(began).Seconds()
	return record, nil
}
