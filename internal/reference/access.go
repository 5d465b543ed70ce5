package reference

import (
	"slices"
	"strings"
)

// Access is who may use a route or an RPC.
type Access struct {
	Listener string   // the flag of the address
	Name     string   // method and pattern, or the name of the RPC
	Allowed  []string // callers, of those of AccessPage
}

// AccessPage returns the page of who may use what. callers are the columns.
func AccessPage(callers []string, rows []Access) string {
	p := newPage("Access", "requests to every route and RPC of the service with each scope")
	p.paragraph("Who may use each route and RPC of a service with a token file: a caller without a token, or with a token or client " +
		"certificate that has one scope. The test that writes this page sends each request, so a new route is part of it. " +
		"A caller that is refused gets 401 or 403, over gRPC `UNAUTHENTICATED` or `PERMISSION_DENIED`, before its body is read. " +
		"Without tokens, callers on the same machine may use everything, and others only what needs no token " +
		"([security model](../security.md#http-and-grpc)).")
	p.paragraph("NATS has users instead of scopes; [their permissions](../nats.md#permissions) are tested in the same way " +
		"(`go test -run Grants ./queue`).")
	for _, listener := range listenersOf(rows) {
		p.paragraph("## " + code(listener))
		var cells [][]string
		for _, row := range rows {
			if row.Listener != listener {
				continue
			}
			line := []string{code(row.Name)}
			for _, caller := range callers {
				line = append(line, yes(slices.Contains(row.Allowed, caller)))
			}
			cells = append(cells, line)
		}
		slices.SortFunc(cells, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		p.table(append([]string{"request"}, callers...), cells)
	}
	return p.String()
}

// listenersOf returns the listeners in the order of the rows.
func listenersOf(rows []Access) (listeners []string) {
	for _, row := range rows {
		if !slices.Contains(listeners, row.Listener) {
			listeners = append(listeners, row.Listener)
		}
	}
	return listeners
}
