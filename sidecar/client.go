package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/sidecar/cli"
)

// clientFlags say which running service a command talks to.
type clientFlags struct {
	URL     string        `name:"url" default:"http://127.0.0.1:8080" help:"The running service."`
	Token   string        `help:"Token for it; without one, that of a private service on this machine (serve --private)."`
	DataDir string        `default:"${data_dir}" placeholder:"DIR" help:"Data directory of a private service on this machine, where its token is (${default})."`
	Timeout time.Duration `default:"1m" help:"Longest wait for one answer."`
	Retries int           `default:"8" help:"Attempts more when the service cannot answer now; nothing is counted twice."`
}

// refusedError is an error that the service answered.
type refusedError struct {
	status  int
	code    string
	field   string
	message string
	after   time.Duration // to wait before the next attempt
}

func (e *refusedError) Error() string {
	if e.field != "" {
		return fmt.Sprintf("the service says %d %s: %s: %s", e.status, e.code, e.field, e.message)
	}
	return fmt.Sprintf("the service says %d %s: %s", e.status, e.code, e.message)
}

// call sends a request and returns the body of its answer. A request that the
// service cannot take now, or that got no answer, is sent again: every request
// of ours may be repeated.
func (f clientFlags) call(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	base, err := url.Parse(f.URL)
	if err != nil || base.Host == "" {
		return nil, cli.Usage(fmt.Errorf("--url %s is not a URL; give http://HOST:PORT", f.URL))
	}
	for attempt := 0; ; attempt++ {
		answer, err := f.once(ctx, method, strings.TrimSuffix(f.URL, "/")+path, contentType, body)
		var refused *refusedError
		pause := min(time.Second<<attempt, 30*time.Second)
		switch {
		case err == nil:
			return answer, nil
		case errors.As(err, &refused) && refused.status != http.StatusServiceUnavailable && refused.status != http.StatusGatewayTimeout:
			if refused.status < http.StatusInternalServerError {
				return nil, cli.Usage(err)
			}
			return nil, err
		case refused != nil && refused.after > 0:
			pause = refused.after
		}
		if attempt >= f.Retries {
			return nil, err
		}
		if cli.Wait(ctx, pause) != nil {
			return nil, err
		}
	}
}

func (f clientFlags) once(ctx context.Context, method, address, contentType string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, cli.Usage(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", "application/json")
	if token := f.bearer(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return text, nil
	}
	return nil, newRefused(answer, text)
}

// bearer is the token of the next attempt. A private service has another one
// after a restart.
func (f clientFlags) bearer() string {
	if f.Token != "" || !cli.MaySeePrivateToken(f.URL) {
		return f.Token
	}
	return cli.ReadPrivateToken(f.DataDir)
}

func newRefused(answer *http.Response, text []byte) error {
	var said struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Field   string `json:"field"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &said) != nil || said.Error.Message == "" {
		said.Error.Code, said.Error.Message = http.StatusText(answer.StatusCode), fmt.Sprintf("%.200s", text)
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // 0 when it does not say
	return &refusedError{answer.StatusCode, said.Error.Code, said.Error.Field, said.Error.Message, time.Duration(seconds) * time.Second}
}

// show asks and prints the answer, indented.
func (f clientFlags) show(a *cli.App, method, path string, body any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	answer, err := f.call(ctx, method, path, "application/json", data)
	if err != nil {
		return err
	}
	pretty := jsontext.Value(answer)
	if err := pretty.Indent(); err != nil {
		return fmt.Errorf("the service answered no JSON: %w", err)
	}
	_, err = a.Stdout.Write(append(pretty, '\n'))
	return err
}
