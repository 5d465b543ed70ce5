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

// TestMain fails if a goroutine of the client outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if stacks := leaked(); code == 0 && stacks != "" {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of leaked goroutines, after waiting for those about to
// end.
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

// quick is a retry policy with short backoffs.
var quick = assay.Retry{Budget: 20 * time.Second, InitialBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond, MaxInvalidResponses: 3}

// serve starts a service with the handler h.
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
		panic(err) // the server closes the connection
	}
	return in
}

// result is a result with the given reward.
func result(id, reward string) string {
	return `{"id":"` + id + `","reward":` + reward + `,"compliant":true,"violation":0.25,"threshold":0.5,` +
		`"witness":{"index":0,"start":0,"end":1,"text":"x","violation":0.25},"instances":[{"start":0,"end":1,"violation":0.25}],"truncated":false,"empty":false}`
}

func answer(results ...string) string {
	return `{"model":{"name":"m","version":"v1"},"offset_unit":"utf8","results":[` + strings.Join(results, ",") +
		`],"timing_ms":{"queue":0,"tokenize":0,"inference":1,"total":1}}`
}

// score responds with rewards that are the texts of the responses.
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
	reply(w, status, fmt.Sprintf(`{"error":{"code":%q,"message":"scripted","field":%q,"request_id":"R1"}}`, code, field))
}

// numbers returns n items, whose rewards are their index divided by n.
func numbers(n int) []assay.Item {
	items := make([]assay.Item, n)
	for i := range items {
		items[i] = assay.Text(fmt.Sprint(float64(i) / float64(n)))
		items[i].ID = fmt.Sprintf("r%d", i)
	}
	return items
}
