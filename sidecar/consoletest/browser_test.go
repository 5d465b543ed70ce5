package consoletest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// stepTimeout is the timeout of each step in the browser.
const stepTimeout = 3 * time.Minute

// tab is a tab of a browser that shows the console of a service.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	problems []string // exceptions, errors of the console, violations of the policy
	trace    []json.RawMessage
	traced   chan struct{} // closed when trace is complete
}

// browse opens the console of a service in a new browser.
func browse(t *testing.T, p *processtest.Process) *tab {
	t.Helper()
	return openTab(t, p.Ready.HTTP+"/")
}

// openTab opens a page in a new browser. The test fails if the browser reports an
// exception or a violation of the Content-Security-Policy.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	browser := chromium(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox,
		chromedp.WindowSize(1100, 900), chromedp.UserDataDir(t.TempDir()))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	b := &tab{t: t, url: strings.TrimSuffix(url, "/")}
	ctx, end := chromedp.NewContext(allocator, chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		end()
		endAllocator()
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(t, b.problems)
	})
	require.NoError(t, chromedp.Do(ctx), "starting %s", browser)
	b.do(chromedp.Navigate(url))
	return b
}

// chromium finds the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("chromium is not on the PATH (Debian: apt-get install chromium)")
	return ""
}

func (b *tab) listen(event any) {
	var problem string
	switch e := event.(type) {
	case *tracing.EventDataCollected:
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, value := range e.Value {
			b.trace = append(b.trace, json.RawMessage(value))
		}
	case *tracing.EventTracingComplete:
		close(b.traced)
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		// A failed request is the business of the test.
		if e.Entry.Source != log.EntrySourceNetwork && e.Entry.Level == log.EntryLevelError {
			problem = string(e.Entry.Source) + ": " + e.Entry.Text
		}
	}
	if problem == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

// sub runs a subtest, which the steps of the tab then belong to.
func (b *tab) sub(name string, f func(t *testing.T)) {
	b.t.Helper()
	outer := b.t
	b.t.Run(name, func(t *testing.T) {
		b.t = t
		defer func() { b.t = outer }()
		f(t)
	})
}

// do performs actions, each of which waits for its element.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for i, action := range actions {
		if _, err := run(b, action); err != nil {
			b.t.Fatalf("action %d: %v; the page shows:\n%s", i, err, b.shown())
		}
	}
}

func run[T any](b *tab, action chromedp.Action[T]) (T, error) {
	ctx, end := context.WithTimeout(b.ctx, stepTimeout)
	defer end()
	return chromedp.Run(ctx, action)
}

func (b *tab) shown() string {
	text, _ := run(b, chromedp.Evaluate[string](`document.body.innerText`))
	return text
}

// open shows a page of the console, such as "try", and waits until it is current.
func (b *tab) open(page string) {
	b.t.Helper()
	name, _, _ := strings.Cut(page, "?")
	b.do(script(fmt.Sprintf(`location.hash = "#/%s"`, page)),
		visible(fmt.Sprintf(`nav a[aria-current][href="#/%s"]`, name)))
}

// await waits until an expression in JavaScript is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(stepTimeout), chromedp.WithPollingInterval(20*time.Millisecond)))
}

// see waits until an element shows a text.
func (b *tab) see(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))`, selector, text))
}

// click clicks the first element of a selector with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// press clicks the button, link or label with a text, with the mouse.
func (b *tab) press(label string) {
	b.t.Helper()
	b.do(chromedp.Click(fmt.Sprintf(`//*[self::button or self::a or self::label or self::summary][normalize-space()=%q]`, label), chromedp.NodeVisible))
}

// hover moves the mouse over an element.
func (b *tab) hover(selector string) {
	b.t.Helper()
	at := evaluate[[]float64](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({ block: 'center' });
		const r = e.getClientRects()[0]; return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector))
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
}

// enter replaces the text of a form control, as a paste does.
func (b *tab) enter(selector, text string) {
	b.t.Helper()
	b.do(visible(selector), script(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.select(); })()`, selector)), insert(text))
}

// choose selects an option of a <select>.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	b.do(script(fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q; s.dispatchEvent(new Event('change')); })()`, selector, value)))
}

// keys presses keys one after the other.
func (b *tab) keys(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 80 {
		if evaluate[bool](b, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
		b.keys(kb.Tab)
	}
	b.t.Fatalf("no number of tabs leads to %s", selector)
}

// text returns the text of an element, as shown.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return evaluate[string](b, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
}

// evaluate returns the value of an expression in JavaScript.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%v; the page shows:\n%s", err, b.shown())
	}
	return value
}

// visible waits until an element is shown.
func visible(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(selector))
}

// script runs JavaScript for its effect.
func script(source string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](source)
}

// insert types a text into the element that has the focus, as a paste does.
func insert(text string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
		return chromedp.Void{}, err
	}
}

// emulate sets the color scheme ("light", "dark") and the width of the window.
func (b *tab) emulate(scheme string, width int64) {
	b.t.Helper()
	features := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, features)
		return err
	}), chromedp.EmulateViewport(width, 900))
}

// screenshot writes a picture of the page to docs/console, with -update only.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	if !*update {
		return
	}
	picture, err := run(b, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	dir := filepath.Join("..", "..", "docs", "console")
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}
