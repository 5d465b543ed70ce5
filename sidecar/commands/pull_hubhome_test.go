package commands

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHubHome(t *testing.T) {
	for want, environment := range map[string]map[string]string{
		"/hf":                   {"HF_HOME": "/hf", "HOME": "/h"},
		"/x/huggingface":        {"XDG_CACHE_HOME": "/x", "HOME": "/h"},
		"/h/.cache/huggingface": {"HOME": "/h"},
	} {
		require.Equal(t, want, hubHome(func(name string) string { return environment[name] }))
	}
}
