package doctor

import (
	"fmt"
	"io/fs"
	"os"

	"assay/api/access"

	"github.com/rs/zerolog"
)

// tokenFile is the file of client tokens.
type tokenFile struct {
	path   string
	mode   fs.FileMode
	counts map[access.Scope]int
	err    error
}

// readTokenFile reads the file as the service does.
func readTokenFile(path string) tokenFile {
	f := tokenFile{path: path}
	info, err := os.Stat(path)
	if err == nil {
		f.mode = info.Mode().Perm()
	}
	tokens, err := access.Load(path, zerolog.Nop())
	if f.err = err; err == nil {
		f.counts = tokens.Count()
	}
	return f
}

func (f tokenFile) findings() []Finding {
	if f.err != nil {
		return []Finding{{"tokens", Error, f.err.Error(), "correct the file of --token-file; its lines are TOKEN SCOPE[,SCOPE...] [NAME]"}}
	}
	detail := fmt.Sprintf("%s: tokens with the scope score: %d, feedback: %d, admin: %d", f.path, f.counts[access.ScopeScore], f.counts[access.ScopeFeedback], f.counts[access.ScopeAdmin])
	if f.mode&0o007 != 0 {
		return []Finding{{"tokens", Warning, fmt.Sprintf("%s; every user of the machine can access it (mode %04o)", detail, f.mode), "chmod 600 " + f.path}}
	}
	return []Finding{{"tokens", OK, detail, ""}}
}

// noTokenFile is the finding of a service without a token file.
func noTokenFile(private, insecure bool) []Finding {
	switch {
	case private:
		return []Finding{{"tokens", OK, "--private: the service generates a token at each start", ""}}
	case insecure:
		return []Finding{{"tokens", Warning, "--insecure without tokens: everyone who reaches the service has the scope admin", "set --token-file, or listen on 127.0.0.1 without --insecure"}}
	}
	return []Finding{{"tokens", OK, "no tokens: every user of this machine may use the service, and no other machine", ""}}
}
