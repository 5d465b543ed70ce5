package doctor

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/servertls"
)

// renewBefore is how long before its end a certificate should have been renewed.
const renewBefore = 14 * 24 * time.Hour

// certificate examines the TLS certificate of the service.
func certificate(files servertls.Files, now time.Time) []Finding {
	identity, err := servertls.Load(files, zerolog.Nop())
	if err != nil {
		return []Finding{{"tls", Error, err.Error(), "correct the files of --tls-cert, --tls-key and --tls-client-ca"}}
	}
	expires := identity.Expires()
	detail := fmt.Sprintf("the certificate is valid until %s", expires.UTC().Format(time.RFC3339))
	switch {
	case now.After(expires):
		return []Finding{{"tls", Error, detail, "renew it; the service reads the file again within a second"}}
	case now.Add(renewBefore).After(expires):
		return []Finding{{"tls", Warning, detail, "renew it; the service reads the file again within a second"}}
	}
	return []Finding{{"tls", OK, detail, ""}}
}
