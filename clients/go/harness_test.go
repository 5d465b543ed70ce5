package assay_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	assay "assay/clients/go"
)

// TestMain fails when a goroutine of the client outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if stacks := leaked(); code == 0 && stacks != "" {
		fmt.Fprintln(os.Stderr, "goroutines that did not end:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

// leaked waits a while for goroutines that are about to end.
func leaked() (stacks string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); runtime.Gosched() {
		stacks = ""
		all := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(stack, "created by assay/clients/go.") {
				stacks += stack + "\n\n"
			}
		}
		if stacks == "" {
			return ""
		}
	}
	return stacks
}

// quick tries again soon.
var quick = assay.Retry{Budget: 20 * time.Second, First: time.Millisecond, Most: 4 * time.Millisecond, BadAnswers: 3}

// serve is a service that answers as h does.
func serve(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func client(t *testing.T, url string, options ...assay.Option) *assay.Client {
	t.Helper()
	c, err := assay.New(url, append([]assay.Option{assay.WithRetry(quick)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

type scoreRequest struct {
	Responses []map[string]any
	Model     string
	Options   map[string]any
}

func readRequest(r *http.Request) (in scoreRequest) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		panic(err) // the server turns it into no answer
	}
	return in
}

// result is that of a response whose text is a number: its reward.
func result(id, reward string) string {
	return `{"id":"` + id + `","reward":` + reward + `,"compliant":true,"violation":0.25,"threshold":0.5,` +
		`"witness":{"index":0,"start":0,"end":1,"text":"x","violation":0.25},"instances":[{"start":0,"end":1,"violation":0.25}],"truncated":false,"empty":false}`
}

func answer(results ...string) string {
	return `{"model":{"name":"m","version":"v1"},"offset_unit":"utf8","results":[` + strings.Join(results, ",") +
		`],"timing_ms":{"queue":0,"tokenize":0,"inference":1,"total":1}}`
}

// score answers with the rewards that the responses spell.
func score(w http.ResponseWriter, r *http.Request) {
	var results []string
	for _, it := range readRequest(r).Responses {
		id, _ := it["id"].(string)
		results = append(results, result(id, it["response"].(string)))
	}
	reply(w, 200, answer(results...))
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func refuse(w http.ResponseWriter, status int, code, field string) {
	reply(w, status, fmt.Sprintf(`{"error":{"code":%q,"message":"told so","field":%q,"request_id":"R1"}}`, code, field))
}

// numbers are items whose reward is their place, divided by n.
func numbers(n int) []assay.Item {
	items := make([]assay.Item, n)
	for i := range items {
		items[i] = assay.Text(fmt.Sprint(float64(i) / float64(n)))
		items[i].ID = fmt.Sprintf("r%d", i)
	}
	return items
}
