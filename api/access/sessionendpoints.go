package access

import (
	"crypto/sha256"
	"net/http"
	"time"

	"assay/api/console"
	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
)

// SessionEndpoints serve /console/session: a browser exchanges a token for a
// cookie that scripts cannot read.
type SessionEndpoints struct {
	Authorizer Authorizer
}

// sessionBody describes the caller to the console.
type sessionBody struct {
	Name    string    `json:"name"`
	Scopes  []Scope   `json:"scopes"`           // that the caller may use; admin includes the others
	CSRF    string    `json:"csrf"`             // "": the caller has no session
	Expires time.Time `json:"expires,omitzero"` // of the session
}

// Open starts a session with the token of the request. Where there are no tokens,
// no session is needed and none is opened.
func (e SessionEndpoints) Open(w http.ResponseWriter, r *http.Request) error {
	caller := CallerOf(r)
	caller.Session = "" // a new session needs a token
	body, err := e.describe(r, caller)
	if err != nil {
		return err
	}
	token, ok := bearer(caller.Authorization)
	if e.Authorizer.Tokens == nil || !ok {
		return e.write(w, r, body)
	}
	id, session := e.Authorizer.Sessions.Open(sha256.Sum256([]byte(token)))
	http.SetCookie(w, sessionCookie(r, id, int(console.Lifetime.Seconds())))
	body.CSRF, body.Expires = session.CSRF, session.Expires.UTC()
	return e.write(w, r, body)
}

// Show describes the caller, and returns the CSRF token of its session to a page
// that was loaded again.
func (e SessionEndpoints) Show(w http.ResponseWriter, r *http.Request) error {
	caller := CallerOf(r)
	body, err := e.describe(r, caller)
	if err != nil {
		return err
	}
	if len(caller.Authorization) == 0 && e.Authorizer.Tokens != nil {
		if session, ok := e.Authorizer.Sessions.Find(caller.Session); ok {
			body.CSRF, body.Expires = session.CSRF, session.Expires.UTC()
		}
	}
	return e.write(w, r, body)
}

// End ends the session of the request.
func (e SessionEndpoints) End(w http.ResponseWriter, r *http.Request) error {
	caller := CallerOf(r)
	if _, err := e.describe(r, caller); err != nil {
		return err
	}
	e.Authorizer.Sessions.End(caller.Session)
	http.SetCookie(w, sessionCookie(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// describe returns the name and the scopes of a caller, or why it has none. It counts the
// request in the quota of the caller.
func (e SessionEndpoints) describe(r *http.Request, caller exchange.Caller) (sessionBody, error) {
	body := sessionBody{Scopes: []Scope{}}
	x := exchange.Of(r)
	var known grant
	for _, scope := range []Scope{ScopeScore, ScopeFeedback, ScopeAdmin} {
		g, err := e.Authorizer.authorize(caller, scope)
		x.Caller, x.Via = g.name, g.via
		switch {
		case err == nil:
			body.Scopes = append(body.Scopes, scope)
		case g.name == "": // unknown, rather than without this scope
			return sessionBody{}, err
		}
		body.Name, known = g.name, g
	}
	return body, x.Admit(known.name, known.quota)
}

func (e SessionEndpoints) write(w http.ResponseWriter, r *http.Request, body sessionBody) error {
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

// SessionOf returns the id of the session of a request, "" without one.
func SessionOf(r *http.Request) string {
	cookie, err := r.Cookie(console.Cookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// changes reports whether a request may change something. A browser sends a cookie
// with such a request by itself.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }
