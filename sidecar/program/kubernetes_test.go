package program_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// assay accepts every command line in k8s/, with the settings of the ConfigMap in
// the same directory.
func TestAssayAcceptsTheCommandLinesOfTheManifests(t *testing.T) {
	var config struct {
		Data map[string]string
	}
	text, err := os.ReadFile("../../k8s/base/config.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.Len(t, config.Data, 1)
	settings := configFile(t, config.Data["assay.yaml"])

	commands := map[string]int{}
	for _, dir := range []string{"base", "components"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../../k8s", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var object any
			require.NoError(t, yaml.Unmarshal(text, &object), path)
			for _, args := range commandLines(object) {
				for i, arg := range args {
					if strings.HasPrefix(arg, "--config=") {
						args[i] = "--config=" + settings
					}
				}
				c, err := parse(t, args...)
				require.NoError(t, err, path)
				commands[args[0]]++
				switch args[0] {
				case "serve":
					require.NoError(t, c.Serve.CheckSettings(), path)
				case "proxy":
					require.NoError(t, c.Proxy.CheckSettings(), path)
				default:
					require.NoError(t, c.Trainer.RetrainFlags.Check(), path)
				}
			}
			return nil
		}))
	}
	require.Equal(t, map[string]int{"serve": 6, "trainer": 1, "proxy": 1}, commands)
}

// commandLines finds the arguments of each container called assay.
func commandLines(node any) (found [][]string) {
	switch node := node.(type) {
	case map[string]any:
		if list, ok := node["args"].([]any); ok && node["name"] == "assay" {
			var args []string
			for _, arg := range list {
				args = append(args, arg.(string))
			}
			return [][]string{args}
		}
		for _, value := range node {
			found = append(found, commandLines(value)...)
		}
	case []any:
		for _, value := range node {
			found = append(found, commandLines(value)...)
		}
	}
	return found
}
