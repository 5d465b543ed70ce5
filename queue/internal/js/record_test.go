package js

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestAuthenticMessages(t *testing.T) {
	t.Parallel()
	const subject = "$KV.ASSAY_STATE.current"
	for name, c := range map[string]struct {
		header nats.Header
		want   bool
	}{
		"signed":                     {nats.Header{HeaderRecord: {subject}, jetstream.MsgIDHeader: {"a b"}}, true},
		"signed for another subject": {nats.Header{HeaderRecord: {subject + "x"}, jetstream.MsgIDHeader: {"d3k0p2m3k9f1"}}, false},
		"of an earlier release":      {nats.Header{jetstream.MsgIDHeader: {"d3k0p2m3k9f1"}}, true},
		"acknowledgement, reply":     {nil, false},
		"reply of the service":       {nats.Header{HeaderModelVersion: {"v1"}}, false},
		"delivered reward":           {nats.Header{jetstream.MsgIDHeader: {"run7 id"}}, false},
		"delivered reward, no id":    {nats.Header{jetstream.MsgIDHeader: {"#0.1"}}, false},
		"deleted by a tool":          {nats.Header{headerKVOperation: {"DEL"}}, true},
		"written by a tool":          {nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, true},
	} {
		require.Equal(t, c.want, Authentic(subject, c.header), name)
	}
}
