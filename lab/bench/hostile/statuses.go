package hostile

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// grpcOutcome begins the outcome of a call over gRPC; the code follows.
const grpcOutcome = "grpc-status "

// faulty reports whether an outcome is an error of the service that no attack may provoke: a status from 500 on but 503
// and 504, which are documented for overload and timeouts, or a gRPC code that means the same.
func faulty(outcome string) bool {
	if code, ok := strings.CutPrefix(outcome, grpcOutcome); ok {
		n, err := strconv.ParseUint(code, 10, 32)
		return err != nil || slices.Contains([]codes.Code{codes.Unknown, codes.Internal, codes.DataLoss, codes.Unimplemented}, codes.Code(n))
	}
	status, err := strconv.Atoi(outcome)
	return err == nil && status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout
}

// undocumented returns an error that names each faulty outcome of the attacks and of the honest requests.
func undocumented(t *tally, measurements ...map[string]*measured) error {
	var found []string
	add := func(of string, outcomes map[string]int) {
		for outcome, n := range outcomes {
			if faulty(outcome) {
				found = append(found, fmt.Sprintf("%s: %s (%d)", of, outcome, n))
			}
		}
	}
	for name, outcomes := range t.seen {
		add(name, outcomes)
	}
	for _, of := range measurements {
		for name, m := range of {
			add("honest, "+name, m.failures)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return fmt.Errorf("undocumented errors of the service: %s", strings.Join(found, "; "))
}
