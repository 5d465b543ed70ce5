package js

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func sealed(data []byte) nats.Header {
	header := nats.Header{"Assay-Label": {"violation"}, "Assay-Text-Hash": {"abc"}, jetstream.MsgIDHeader: {"x.1"}}
	Seal("a.b", header, data)
	return header
}

func TestSeal(t *testing.T) {
	data := []byte(`{"bag":{}}`)
	header := sealed(data)
	header.Set("Nats-Expected-Stream", "S") // servers and clients add these
	header.Set("Nats-Sequence", "7")
	isSealed, err := Verify("a.b", header, data)
	require.NoError(t, err)
	require.True(t, isSealed)
	isSealed, err = VerifyHeader("a.b", header)
	require.NoError(t, err)
	require.True(t, isSealed)
	require.True(t, Authentic("a.b", header))
}

func TestRecordsOfEarlierReleasesAreNotSealed(t *testing.T) {
	isSealed, err := Verify("a.b", nats.Header{HeaderRecord: {"a.b"}, "Assay-Label": {"violation"}}, []byte("x"))
	require.NoError(t, err)
	require.False(t, isSealed)
	isSealed, err = Verify("a.b", nil, []byte(`{"stream":"S","seq":1}`)) // an acknowledgement
	require.NoError(t, err)
	require.False(t, isSealed)
}

func TestVerifyFindsDamage(t *testing.T) {
	data := []byte(`{"bag":{}}`)
	for name, damage := range map[string]func(subject *string, header nats.Header, data []byte){
		"payload": func(_ *string, _ nats.Header, data []byte) { data[3] ^= 1 },
		"subject": func(subject *string, _ nats.Header, _ []byte) { *subject = "a.c" },
		"value":   func(_ *string, h nats.Header, _ []byte) { h.Set("Assay-Label", "compliant") },
		"name": func(_ *string, h nats.Header, _ []byte) {
			h["Assay-Lacel"] = h["Assay-Label"]
			delete(h, "Assay-Label")
		},
		"name elsewhere": func(_ *string, h nats.Header, _ []byte) {
			h["Bssay-Label"] = h["Assay-Label"]
			delete(h, "Assay-Label")
		},
		"missing":   func(_ *string, h nats.Header, _ []byte) { delete(h, "Assay-Text-Hash") },
		"added":     func(_ *string, h nats.Header, _ []byte) { h.Set("Assay-Time", "x") },
		"checksum":  func(_ *string, h nats.Header, _ []byte) { h[HeaderChecksum][0] = "0" + h[HeaderChecksum][0][1:] + "0" },
		"no period": func(_ *string, h nats.Header, _ []byte) { h.Set(HeaderChecksum, "abc") },
		"checksum's name": func(_ *string, h nats.Header, _ []byte) {
			h["Assay-Chacksum"] = h[HeaderChecksum]
			delete(h, HeaderChecksum)
		},
	} {
		subject, header, body := "a.b", sealed(data), bytes.Clone(data)
		damage(&subject, header, body)
		_, err := Verify(subject, header, body)
		require.ErrorIs(t, err, ErrDamaged, name)
		if name != "payload" {
			_, err = VerifyHeader(subject, header)
			require.ErrorIs(t, err, ErrDamaged, name)
		}
	}
	// The server's length of the headers is damaged: they are in the payload.
	_, err := Verify("a.b", nil, []byte("NATS/1.0\r\nAssay-Record: a.b\r\n\r\n{}"))
	require.ErrorIs(t, err, ErrDamaged)
}
