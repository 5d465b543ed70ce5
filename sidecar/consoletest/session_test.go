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
	b.keys(kb.Escape, kb.Escape)
	b.do(visible(`#sign-in[open]`))
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
	b.do(script(`window.served = window.fetch; window.fetch = () => Promise.reject(new TypeError('no network'))`))
	b.press("Sign out")
	b.see("#notice", "cannot be reached")
	b.see("#account", "trainer")
	b.do(script(`window.fetch = window.served`))
	b.open("try")
	b.enter("#try textarea", "a text of this user")
	b.press("Sign out")
	b.do(visible(`#sign-in[open]`))
	b.enter("#token", "admin-token-0123456789")
	b.press("Sign in")
	b.see("#account", "ops")
	b.do(visible(`#try`))
	require.Empty(t, evaluate[string](b, `document.querySelector('#try textarea').value`), "the text of the user before")
	b.open("training")
	b.press("Start a training run…")
	b.click(`dialog[open] button[type=submit]`)
	b.see("#training-state", "ops requested a training run")

	revoke := func() {
		require.NoError(t, os.WriteFile(file, []byte("score-token-0123456789 score trainer\n"), 0o600))
	}
	revoke()
	b.do(visible(`#sign-in[open]`))

	require.NoError(t, os.WriteFile(file, []byte(tokens), 0o600))
	b.enter("#token", "admin-token-0123456789")
	b.await(`document.querySelector('#account').innerText.includes('ops') || document.querySelector('#sign-in-form').requestSubmit()`)
	b.open("try") // which sends nothing by itself
	revoke()
	b.await(`fetch('v1/models').then((r) => r.status === 401)`)
	b.do(script(`import('./console/assets/api.js').then((api) => api.follow('v1/scored', {}, new AbortController().signal))`))
	b.do(visible(`#sign-in[open]`))
}

// A page that cannot ask who its user is says why, and tries again.
func TestStartFails(t *testing.T) {
	b := browse(t, processtest.Serve(t, shippedModel, t.TempDir(), "--train-auto=false"))
	b.do(visible(`#try`))
	b.do(script(`window.served = window.fetch; window.fetch = () => Promise.reject(new TypeError('no network'));
		document.querySelector('#view').replaceChildren(); import('./console/assets/console.js?again')`))
	b.see("#notice", "cannot be reached")
	b.do(script(`window.fetch = window.served`))
	b.press("Try again")
	b.do(visible(`#try`))
}
