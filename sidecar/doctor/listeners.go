package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"assay/api/oip/inference"
	"assay/sidecar/serve"
)

// listener is an address of the service. who returns a description of the service that listens there, if it is an assay.
type listener struct {
	flag, address string
	who           func(ctx context.Context, address string) (string, bool)
}

// answerTimeout bounds the question who listens on an address.
const answerTimeout = 3 * time.Second

// findings tries to listen on the address.
func (l listener) findings(ctx context.Context) []Finding {
	finding := func(status Status, detail, fix string) []Finding {
		return []Finding{{"listen", status, l.flag + " " + l.address + ": " + detail, fix}}
	}
	var config net.ListenConfig
	opened, err := config.Listen(ctx, "tcp", l.address)
	if err == nil {
		if err := opened.Close(); err != nil {
			return finding(Error, err.Error(), "choose another address")
		}
		return finding(OK, "free", "")
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return finding(Error, err.Error(), fixListen(err))
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if who, is := l.who(ctx, reachable(l.address)); is {
		return finding(Warning, "in use by "+who, fmt.Sprintf("nothing, if that is the service in question; otherwise stop it, or choose another address with %s", l.flag))
	}
	return finding(Error, "in use by another program", fmt.Sprintf("stop the program that uses the address (ss -ltnp), or choose another address with %s", l.flag))
}

// fixListen is the fix of an address that cannot be used although it is free.
func fixListen(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "choose a port above 1023, or give the process CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "choose an address of this machine (ip addr)"
	}
	return "choose another address"
}

// reachable replaces the unspecified address by loopback.
func reachable(address string) string {
	if port, ok := strings.CutPrefix(address, ":"); ok {
		address = "0.0.0.0:" + port
	}
	_, address, _ = strings.Cut(serve.Reachable("tcp://"+address), "://")
	return address
}

// httpsService is httpService for a service with TLS.
func httpsService(ctx context.Context, address string) (string, bool) {
	return assayAt(ctx, "https://"+address)
}

// httpService reports whether an assay answers over HTTP, and the version of its model.
func httpService(ctx context.Context, address string) (string, bool) {
	return assayAt(ctx, "http://"+address)
}

func assayAt(ctx context.Context, url string) (string, bool) {
	var alive struct {
		Status string `json:"status"`
	}
	if err := getJSON(ctx, url+"/livez", &alive); err != nil || alive.Status != "alive" {
		return "", false
	}
	var models struct {
		Data []struct {
			Version string `json:"version"`
		} `json:"data"`
	}
	if err := getJSON(ctx, url+"/v1/models", &models); err != nil || len(models.Data) == 0 {
		return "an assay", true // it requires a token, has no model yet, or serves only health and metrics there
	}
	return "an assay that serves the model " + models.Data[0].Version, true
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- it sends nothing secret, and only asks what listens
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return json.UnmarshalRead(http.MaxBytesReader(nil, response.Body, 1<<20), into)
}

// grpcService reports whether an assay answers over gRPC.
func grpcService(ctx context.Context, address string) (string, bool) {
	return grpcAssayAt(ctx, address, insecure.NewCredentials())
}

// grpcTLSService is grpcService for a service with TLS.
func grpcTLSService(ctx context.Context, address string) (string, bool) {
	return grpcAssayAt(ctx, address, credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})) // #nosec G402 -- as above
}

func grpcAssayAt(ctx context.Context, address string, secure credentials.TransportCredentials) (string, bool) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return "", false
	}
	defer conn.Close()
	var server inference.ServerMetadataResponse
	if err := conn.Invoke(ctx, "/inference.GRPCInferenceService/ServerMetadata", &inference.ServerMetadataRequest{}, &server); err != nil {
		return "", false
	}
	return "an assay", server.Name == "assay"
}

// natsService reports whether the embedded server of an assay answers. A NATS server sends its description first.
func natsService(ctx context.Context, address string) (string, bool) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", false
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline) // without it, the check has a timeout
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", false
	}
	text, ok := strings.CutPrefix(line, "INFO ")
	var info struct {
		Name    string `json:"server_name"`
		Version string `json:"version"`
	}
	if !ok || json.Unmarshal([]byte(text), &info) != nil {
		return "", false
	}
	return "an assay with nats-server " + info.Version, info.Name == "assay"
}
