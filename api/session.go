package api

import (
	"crypto/sha256"
	"net/http"
	"time"

	"assay/api/console"
	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
)

// sessionEndpoints serve /console/session: a browser exchanges a token for a
// cookie that scripts cannot read.
type sessionEndpoints struct {
	access access
}

// sessionBody describes the caller to the console.
type sessionBody struct {
	Name    string    `json:"name"`
	Scopes  []Scope   `json:"scopes"`           // that the caller may use; admin includes the others
	CSRF    string    `json:"csrf"`             // "": the caller has no session
	Expires time.Time `json:"expires,omitzero"` // of the session
}

// open starts a session with the token of the request. Where there are no tokens,
// no session is needed and none is opened.
func (e sessionEndpoints) open(w http.ResponseWriter, r *http.Request) error {
	caller := callerOf(r)
	caller.Session = "" // a new session needs a token
	body, err := e.describe(r, caller)
	if err != nil {
		return err
	}
	token, ok := bearer(caller.Authorization)
	if e.access.tokens == nil || !ok {
		return e.write(w, r, body)
	}
	id, session := e.access.sessions.Open(sha256.Sum256([]byte(token)))
	http.SetCookie(w, sessionCookie(r, id, int(console.Lifetime.Seconds())))
	body.CSRF, body.Expires = session.CSRF, session.Expires.UTC()
	return e.write(w, r, body)
}

// show describes the caller, and returns the CSRF token of its session to a page
// that was loaded again.
func (e sessionEndpoints) show(w http.ResponseWriter, r *http.Request) error {
	caller := callerOf(r)
	body, err := e.describe(r, caller)
	if err != nil {
		return err
	}
	if len(caller.Authorization) == 0 && e.access.tokens != nil {
		if session, ok := e.access.sessions.Find(caller.Session); ok {
			body.CSRF, body.Expires = session.CSRF, session.Expires.UTC()
		}
	}
	return e.write(w, r, body)
}

// end ends the session of the request.
func (e sessionEndpoints) end(w http.ResponseWriter, r *http.Request) error {
	caller := callerOf(r)
	if _, err := e.describe(r, caller); err != nil {
		return err
	}
	e.access.sessions.End(caller.Session)
	http.SetCookie(w, sessionCookie(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// describe returns the name and the scopes of a caller, or why it has none.
func (e sessionEndpoints) describe(r *http.Request, caller exchange.Caller) (sessionBody, error) {
	body := sessionBody{Scopes: []Scope{}}
	for _, scope := range []Scope{ScopeScore, ScopeFeedback, ScopeAdmin} {
		g, err := e.access.authorize(caller, scope)
		exchange.Of(r).Caller, exchange.Of(r).Via = g.name, g.via
		switch {
		case err == nil:
			body.Scopes = append(body.Scopes, scope)
		case g.name == "": // unknown, rather than without this scope
			return sessionBody{}, err
		}
		body.Name = g.name
	}
	return body, nil
}

func (e sessionEndpoints) write(w http.ResponseWriter, r *http.Request, body sessionBody) error {
	w.Header().Set("Cache-Control", "no-store")
	return httpjson.WriteJSON(w, r, http.StatusOK, body)
}

// sessionCookie returns the cookie of a session. It is Secure where the browser
// uses TLS, which ends at a proxy: a client that claims that only restricts itself.
func sessionCookie(r *http.Request, id string, maxAge int) *http.Cookie {
	return &http.Cookie{ // #nosec G124 -- Secure depends on the request
		Name: console.Cookie, Value: id, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// sessionOf returns the id of the session of a request, "" without one.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(console.Cookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// changes reports whether a request may change something. A browser sends a cookie
// with such a request by itself.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }
