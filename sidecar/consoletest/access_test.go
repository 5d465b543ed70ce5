package consoletest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// The files of axe-core are those of its package.
func TestAxeIsUnchanged(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("testdata", "axe", "README.md"))
	require.NoError(t, err)
	for _, name := range []string{"axe.min.js", "LICENSE", "LICENSE-3RD-PARTY.txt"} {
		content, err := os.ReadFile(filepath.Join("testdata", "axe", name))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		require.Contains(t, string(readme), "| `"+name+"` | `"+hex.EncodeToString(sum[:])+"` |")
	}
}

// requireAccessible runs axe-core on the page that is shown.
func (b *tab) requireAccessible(where string) {
	b.t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	require.NoError(b.t, err)
	b.do(script(string(source) + ";undefined"))
	found := evaluate[[]string](b, `axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations
		.filter((v) => v.impact === 'serious' || v.impact === 'critical')
		.map((v) => v.impact + ' ' + v.id + ': ' + v.help + '\n' + v.nodes.map((n) => n.html + ' ' + n.failureSummary).join('\n')))`)
	require.Empty(b.t, found, where)
}

// Each page, with content, is accessible in light and dark, and fits a phone.
func TestPagesAreAccessible(t *testing.T) {
	p := serveTwoVersions(t)
	b := browse(t, p)
	b.emulate("light", 1100)
	b.await(`document.querySelectorAll('nav a').length === 7`)
	pages := evaluate[[]string](b, `[...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href').slice(2))`)
	for _, name := range pages {
		for _, scheme := range []string{"light", "dark"} {
			b.emulate(scheme, 1100)
			b.open(name)
			b.await(`document.querySelector('#view').children.length > 0`)
			if name == "try" {
				b.scoreExample()
			}
			b.requireAccessible(name + ", " + scheme)
			if name == "try" && scheme == "light" {
				b.screenshot("try-light")
			}
		}
		b.emulate("light", 360)
		require.LessOrEqual(t, evaluate[int](b, `document.documentElement.scrollWidth`), 360, "width of %s", name)
		b.requireAccessible(name + ", on a phone")
	}
}

// The page appears at once, in three round trips.
func TestFirstPaint(t *testing.T) {
	p := processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off")
	b := browse(t, p)
	b.await(`document.querySelector('#try') !== null`)
	paint := evaluate[float64](b, `performance.getEntriesByName('first-contentful-paint')[0].startTime`)
	t.Logf("first contentful paint after %.0f ms", paint)
	require.Less(t, paint, 3000.0, "300 ms on an idle machine; tests share theirs")
	bytes := evaluate[int](b, `performance.getEntriesByType('resource').filter((r) => r.name.includes('/console/')).reduce((sum, r) => sum + r.decodedBodySize, 0)`)
	require.Less(t, bytes, 200_000)
	require.NotContains(t, strings.Join(evaluate[[]string](b, `performance.getEntriesByType('resource').map((r) => new URL(r.name).origin)`), " "), "https://")
}
