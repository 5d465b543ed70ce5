package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every Python server has the files that it needs, and a server that is called sorted sorts.
func TestPythonServers(t *testing.T) {
	at := target{model: Model{Dir: "MODEL"}, python: "PYTHON", scripts: "SCRIPTS", exported: "EXPORTED"}
	for _, s := range Servers() {
		if s.env == "" {
			continue
		}
		_, err := pythonFiles.ReadFile("python/requirements-" + s.env + ".txt")
		require.NoError(t, err, s.Name)
		args := strings.Join(s.args(at), " ")
		require.Equal(t, s.exports != "", strings.Contains(args, "--exported EXPORTED"), s.Name)
		require.Equal(t, strings.HasSuffix(s.Name, "-sorted"), strings.HasSuffix(args, " --sort"), s.Name)
		if s.exports != "" {
			_, err := pythonFiles.ReadFile("python/export_" + s.env + ".py")
			require.NoError(t, err, s.Name)
		}
	}
}

func TestExported(t *testing.T) {
	dir := t.TempDir()
	python, told := filepath.Join(dir, "python3"), filepath.Join(dir, "told")
	script := "#!/bin/sh\necho \"$@\" >> " + told + "\nmkdir -p \"$5\" && touch \"$5/last\"\n"
	require.NoError(t, os.WriteFile(python, []byte(script), 0o755)) //nolint:gosec // it is run
	d := Dir{Path: dir, Notify: func(string) {}}
	m := Model{Name: "small", Dir: "MODEL", MaxLength: 128}
	for _, s := range []Server{{env: "plain", exports: "last"}, {env: "calibrated", exports: "last", calibrates: true}} {
		for range 2 { // the second time there is nothing to do
			got, err := d.exported(t.Context(), python, s, m, []string{"One.", "Two."})
			require.NoError(t, err)
			require.Equal(t, filepath.Join(dir, s.env+"-small"), got)
		}
	}
	text, err := os.ReadFile(told)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(`DIR/python/export_plain.py --model MODEL --out DIR/plain-small
DIR/python/export_calibrated.py --model MODEL --out DIR/calibrated-small --sentences DIR/sentences.json --max-length 128
`, "DIR", dir), string(text))
	text, err = os.ReadFile(filepath.Join(dir, "sentences.json"))
	require.NoError(t, err)
	require.JSONEq(t, `["One.","Two."]`, string(text))
}
