package exchange

// Caller is what a request shows of its sender, over HTTP and gRPC alike.
type Caller struct {
	Remote        string              // address of the connection
	Host          string              // how the request names the service: Host, or :authority
	Authorization []string            // values of that header
	Headers       map[string][]string // all headers, or the metadata of gRPC

	// Of a browser with a session of the console; gRPC has none.
	Session string // id of the session
	CSRF    string // CSRF token that the request presents
	Changes bool   // whether the method may change something
}
