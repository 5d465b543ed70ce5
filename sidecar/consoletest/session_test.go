package consoletest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

func TestSignIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	const tokens = "score-token-0123456789 score trainer\nadmin-token-0123456789 admin ops\n"
	require.NoError(t, os.WriteFile(file, []byte(tokens), 0o600))
	p := processtest.Serve(t, shippedModel, t.TempDir(), "--train-auto=false", "--token-file", file)
	b := browse(t, p)
	b.do(visible(`#sign-in[open]`))
	b.requireAccessible("sign in")
	b.enter("#token", "wrong-token-0123456789")
	b.keys(kb.Enter)
	b.see("#sign-in-error", "the token is unknown")
	b.enter("#token", "score-token-0123456789")
	b.keys(kb.Enter)
	b.see("#account", "trainer")
	b.do(visible(`#try`))
	require.Empty(t, evaluate[string](b, `document.cookie`), "scripts cannot read the session")
	require.Zero(t, evaluate[int](b, `localStorage.length + sessionStorage.length`))
	require.Equal(t, "", evaluate[string](b, `document.querySelector('#token').value`))

	b.scoreExample()
	require.NotContains(t, b.text("nav"), "Training", "needs the scope feedback")
	require.Equal(t, 200, evaluate[int](b, `fetch('console/session', { method: 'POST', headers: { Authorization: 'Bearer score-token-0123456789' } }).then((r) => r.status)`), "another tab signs in")
	b.scoreExample()
	b.open("models")
	b.see("#view", "needs the scope admin")
	b.do(script(`location.hash = '#/training'`))
	b.see("#view", "does not have the scope feedback")

	b.do(chromedp.Reload())
	b.see("#account", "trainer")
	b.press("Sign out")
	b.do(visible(`#sign-in[open]`))
	b.enter("#token", "admin-token-0123456789")
	b.press("Sign in")
	b.see("#account", "ops")
	b.open("training")
	b.press("Start a training run…")
	b.click(`dialog[open] button[type=submit]`)
	b.see("#training-state", "ops requested a training run")

	require.NoError(t, os.WriteFile(file, []byte("score-token-0123456789 score trainer\n"), 0o600))
	b.do(visible(`#sign-in[open]`))
}
