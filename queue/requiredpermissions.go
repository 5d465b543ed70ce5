package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"assay/queue/embedded"
	"assay/queue/labels"
	"assay/queue/registry"
)

// subjectUser is the subject on which a server replies with the permissions of the user
// that asks.
const subjectUser = "$SYS.REQ.USER.INFO"

// permissions are the subjects that a user may publish or subscribe to.
type permissions struct {
	publish   []string
	subscribe []string // "SUBJECT QUEUE" for a subscription in a queue group
}

// requiredPermissions returns the permissions that assay needs on a server whose JetStream
// has no domain. Wildcards cover what differs between messages. k8s/nats/values.yaml grants
// at least these.
func (c StreamsConfig) requiredPermissions() permissions {
	need := permissions{
		publish: []string{
			SubjectRewards + ".>", SubjectDead + ".>", labels.SubjectFeedback + ".item.>", labels.SubjectFeedback + ".erased.>",
			registry.SubjectEvents + ".>", registry.SubjectState + ">", registry.SubjectChunks + ">", registry.SubjectNames + ">",
			"$JS.API.INFO", "$JS.ACK." + StreamResponses + ".>",
			"$JS.API.STREAM.PURGE." + labels.StreamFeedback, "$JS.API.STREAM.PURGE." + registry.StreamModels,
			"$JS.API.STREAM.MSG.DELETE." + labels.StreamFeedback,
			"$JS.API.STREAM.MSG.DELETE." + StreamRewards, "$JS.API.STREAM.MSG.DELETE." + StreamDead,
		},
		subscribe: []string{
			SubjectScore + " " + ServiceName, labels.SubjectFeedback + " " + ServiceName,
			SubjectLive + " " + ServiceName, SubjectLive + ".*.*", "$SRV.>", nats.InboxPrefix + ">",
		},
	}
	if c.KeepScored > 0 {
		need.publish = append(need.publish, labels.SubjectScored+".>", "$JS.API.STREAM.MSG.DELETE."+labels.StreamScored)
	}
	for _, stream := range c.withDefaults().streams(embedded.DefaultMaxPayload) {
		for _, verb := range []string{"STREAM.INFO.%s", "STREAM.CREATE.%s", "STREAM.UPDATE.%s", "CONSUMER.CREATE.%s.>", "CONSUMER.INFO.%s.>", "CONSUMER.DELETE.%s.>", "CONSUMER.MSG.NEXT.%s.>"} {
			need.publish = append(need.publish, "$JS.API."+fmt.Sprintf(verb, stream.Name))
		}
		if stream.AllowDirect {
			get := "$JS.API.DIRECT.GET." + stream.Name
			need.publish = append(need.publish, get, get+".>")
		} else {
			need.publish = append(need.publish, "$JS.API.STREAM.MSG.GET."+stream.Name)
		}
	}
	return need
}

// userPermissions are the permissions of a user as a server reports them; nil: everything.
type userPermissions struct {
	Publish   *server.SubjectPermission `json:"publish"`
	Subscribe *server.SubjectPermission `json:"subscribe"`
	Responses *struct{}                 `json:"responses"` // nil: no replies to requests
}

// readPermissions asks the server for the permissions of the user of nc, nil if it has no
// restrictions.
func readPermissions(ctx context.Context, nc *nats.Conn) (*userPermissions, error) {
	reply, err := nc.RequestWithContext(ctx, subjectUser, nil)
	if err != nil {
		return nil, err
	}
	var info struct {
		Data struct {
			Permissions *userPermissions `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		return nil, fmt.Errorf("reply on %s: %w", subjectUser, err)
	}
	return info.Data.Permissions, nil
}

// missing returns what need has and p does not, as "publish SUBJECT", "subscribe SUBJECT
// [QUEUE]" or "allow_responses".
func (p *userPermissions) missing(need permissions) (missing []string) {
	if p == nil {
		return nil
	}
	for _, subject := range need.publish {
		if !allows(p.Publish, subject) {
			missing = append(missing, "publish "+subject)
		}
	}
	for _, subject := range need.subscribe {
		if !allows(p.Subscribe, subject) {
			missing = append(missing, "subscribe "+subject)
		}
	}
	if p.Responses == nil && !allows(p.Publish, nats.InboxPrefix+">") { // replies to requests
		missing = append(missing, "allow_responses")
	}
	return missing
}

// allows reports whether a user may use every subject that matches the pattern "SUBJECT
// [QUEUE]".
func allows(p *server.SubjectPermission, pattern string) bool {
	if p == nil {
		return true
	}
	covers := func(entry string) bool {
		granted, inQueue, limited := strings.Cut(entry, " ")
		subject, queue, _ := strings.Cut(pattern, " ")
		return server.SubjectMatchesFilter(subject, granted) && (!limited || server.SubjectMatchesFilter(queue, inQueue))
	}
	denies := func(entry string) bool {
		denied, inQueue, limited := strings.Cut(entry, " ")
		subject, queue, _ := strings.Cut(pattern, " ")
		return server.SubjectsCollide(denied, subject) && (!limited || server.SubjectMatchesFilter(queue, inQueue))
	}
	return (len(p.Allow) == 0 || slices.ContainsFunc(p.Allow, covers)) && !slices.ContainsFunc(p.Deny, denies)
}
