package exchange

// Caller is what a request shows of its sender, over HTTP and gRPC alike.
type Caller struct {
	Remote        string              // address of the connection
	Host          string              // how the request names the service: Host, or :authority
	Authorization []string            // values of that header
	Headers       map[string][]string // all headers, or the metadata of gRPC
}
