package doctor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue"
	"assay/queue/labels"
)

// slowRoundTrip is a round trip to NATS that delays each streamed response noticeably.
const slowRoundTrip = 50 * time.Millisecond

// unreachable is the finding of a server that cannot be inspected.
func unreachable(err error) []Finding {
	return []Finding{{"nats", Error, err.Error(), "check --nats-url, its credentials (--nats-creds, --nats-nkey, --nats-token), --nats-ca, and the network between this machine and the server"}}
}

// nats judges an external server. replicas is --stream-replicas; 0: any.
func nats(i *queue.Inspection, replicas int) []Finding {
	detail := fmt.Sprintf("%s: nats-server %s, round trip %s, messages up to %s", i.URL, i.Version, rounded(i.RoundTrip), size(i.MaxPayload))
	found := []Finding{{"nats", OK, detail, ""}}
	switch {
	case i.JetStream != nil:
		found = []Finding{{"nats", Error, detail + ": " + i.JetStream.Error(), "enable JetStream for the account of assay (jetstream: enabled), or set --nats-jetstream-domain behind a leaf node"}}
	case i.RoundTrip > slowRoundTrip:
		found = []Finding{{"nats", Warning, detail + ": each streamed response waits for several round trips", "run assay near the NATS server, or behind a leaf node (docs/nats.md)"}}
	}
	found = append(found, natsPermissions(i)...)
	for _, s := range i.Streams {
		found = append(found, stream(s, replicas)...)
	}
	if i.JetStream == nil {
		found = append(found, externalSync(i.Servers)...)
	}
	return append(found, skew("the NATS server", i.Ahead)...)
}

// natsPermissions judges the permissions of the user.
func natsPermissions(i *queue.Inspection) []Finding {
	switch {
	case i.Permissions != nil:
		return []Finding{{"nats", Warning, "the permissions of the user are unknown: " + i.Permissions.Error(), "allow the user to publish $SYS.REQ.USER.INFO, or compare its permissions with k8s/nats/values.yaml"}}
	case len(i.Missing) > 0:
		return []Finding{{"nats", Error, fmt.Sprintf("the user has no permission for %d subjects: %s", len(i.Missing), strings.Join(i.Missing, ", ")), "add them to the permissions of the user; k8s/nats/values.yaml has all"}}
	}
	return []Finding{{"nats", OK, "the user has the permissions that assay needs", ""}}
}

// nearlyFull is the share of its maximum size at which a stream is reported.
const nearlyFull = 0.8

// stream judges the state of one stream.
func stream(s queue.StreamInspection, replicas int) []Finding {
	finding := func(status Status, detail, fix string) []Finding {
		return []Finding{{"streams", status, s.Name + " " + detail, fix}}
	}
	switch {
	case errors.Is(s.Err, jetstream.ErrStreamNotFound):
		return finding(OK, "does not exist; the service creates it", "")
	case errors.Is(s.Err, queue.ErrIncompatibleStream):
		return finding(Error, "has settings that lose messages: "+s.Err.Error(), "change the setting with nats stream edit, or rename or remove the stream; assay does not change it")
	case s.Err != nil:
		return finding(Error, "cannot be read: "+s.Err.Error(), "check the permissions of the user, and the state of the cluster (nats stream report)")
	case s.Lost > 0:
		return finding(Error, fmt.Sprintf("is damaged: the NATS server has lost %d messages since its start", s.Lost), repairStored)
	case s.Leaderless:
		return finding(Error, "has no leader", "start the NATS servers that store it: a majority of its replicas must run")
	case len(s.Behind) > 0:
		return finding(Warning, fmt.Sprintf("has replicas that are offline or behind: %s", strings.Join(s.Behind, ", ")), "check these NATS servers")
	case s.RejectsWhenFull && s.MaxBytes > 0 && float64(s.Bytes) >= nearlyFull*float64(s.MaxBytes):
		return finding(Warning, fmt.Sprintf("has %s of at most %s; when it is full, it rejects messages", size(s.Bytes), size(s.MaxBytes)), "raise its limit (--stream-*-bytes), or find out why it is not emptied")
	case replicas > s.Replicas:
		return finding(Warning, fmt.Sprintf("replicas: %d, fewer than --stream-replicas %d; the service tries to raise them", s.Replicas, replicas), "run at least as many NATS servers with JetStream")
	}
	detail := fmt.Sprintf("has %d messages (%s), replicas: %d", s.Messages, size(s.Bytes), s.Replicas)
	if s.Name == labels.StreamFeedback && s.Messages > 0 {
		detail += "; assay feedback verify checks each of them"
	}
	return finding(OK, detail, "")
}

// repairStored is the fix of a damaged stream.
const repairStored = "check the disk; assay feedback verify lists the damaged labels, and docs/how-to/back-up.md (Damaged records) says what restores which stream"

// embeddedStreams judges what the embedded server stores: that of the service that uses the data directory now, if i is
// not nil. address is where it listens.
func embeddedStreams(i *queue.Inspection, address string) (found []Finding) {
	if i == nil {
		return []Finding{{"streams", OK, "not open; while the service runs, assay feedback verify --nats-url nats://" + address + " checks each label", ""}}
	}
	for _, s := range i.Streams {
		found = append(found, stream(s, 0)...)
	}
	return found
}
