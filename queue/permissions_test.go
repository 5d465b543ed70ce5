package queue

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/retrain"
)

// restricted is a server with the users of k8s/nats/values.yaml.
type restricted struct {
	url      string
	seeds    map[string]string          // files, by the variable of the public key
	accounts map[string]*server.Account // of users, by name
}

// accountAssay is the account of the streams.
const accountAssay = "ASSAY"

// restrict starts it. The chart renders config.merge as JSON and strips the quotes
// of << this >>.
func restrict(t *testing.T) restricted {
	t.Helper()
	text, err := os.ReadFile("../k8s/nats/values.yaml")
	require.NoError(t, err)
	var values struct {
		Config struct {
			Merge     map[string]any
			Jetstream struct {
				Merge struct {
					SyncInterval string `yaml:"sync_interval"`
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &values))
	merged, err := json.Marshal(values.Config.Merge)
	require.NoError(t, err)
	// encoding/json writes < and > as \u003c and \u003e.
	bare := regexp.MustCompile(`"(?:<|\\u003c){2} (.*?) (?:>|\\u003e){2}"`).ReplaceAll(merged, []byte("$1"))
	config := strings.ReplaceAll(string(bare), `\u003e`, ">")

	r := restricted{seeds: map[string]string{}}
	var keys strings.Builder
	for _, user := range []string{"ASSAY_NKEY", "APP_NKEY", "LABELS_NKEY"} {
		pair, err := nkeys.CreateUser()
		require.NoError(t, err)
		public, err := pair.PublicKey()
		require.NoError(t, err)
		seed, err := pair.Seed()
		require.NoError(t, err)
		r.seeds[user] = filepath.Join(t.TempDir(), "nkey")
		require.NoError(t, os.WriteFile(r.seeds[user], seed, 0o600))
		fmt.Fprintf(&keys, "%s: %s\n", user, public)
		require.Contains(t, config, "$"+user)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(keys.String()+strings.TrimSuffix(strings.TrimPrefix(config, "{"), "}")), 0o600))
	opts, err := server.ProcessConfigFile(path)
	require.NoError(t, err)
	require.Len(t, opts.Nkeys, len(r.seeds))
	require.EqualValues(t, 8<<20, opts.MaxPayload)
	opts.SyncAlways = values.Config.Jetstream.Merge.SyncInterval == "always"
	r.accounts = map[string]*server.Account{}
	for _, user := range opts.Nkeys { // an observer without restrictions in the account of each
		r.accounts[user.Account.Name] = user.Account
		opts.Users = append(opts.Users, &server.User{Username: observerOf(user.Account.Name), Password: "test", Account: user.Account})
	}
	r.url = jstest.Server(t, opts).ClientURL()
	return r
}

func observerOf(account string) string { return "observer of " + account }

// observe connects to an account without restrictions.
func (r restricted) observe(t *testing.T, account string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(r.url, nats.UserInfo(observerOf(account), "test"))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// connect connects as a user. The channel receives its permission violations.
func (r restricted) connect(t *testing.T, user, inbox string) (*nats.Conn, <-chan error) {
	t.Helper()
	nkey, err := nats.NkeyOptionFromSeed(r.seeds[user])
	require.NoError(t, err)
	refused := make(chan error, 100)
	nc, err := nats.Connect(r.url, nkey, nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, refused
}

func (r restricted) assay(t *testing.T) *Queue {
	t.Helper()
	cfg := testConfig(t)
	cfg.Conn = ConnConfig{URL: r.url, NKey: r.seeds["ASSAY_NKEY"]}
	cfg.Streams.KeepScored = time.Hour
	cfg, _ = liveConfig(t, cfg, hashes{})
	allowed := hook(func(message string) {
		switch {
		case message == "NATS": // an asynchronous error, such as a permission violation
			t.Error("assay may not do what it does")
		case strings.Contains(message, "sync_interval"):
			t.Error("assay does not see that the servers sync always")
		}
	})
	q, err := Open(t.Context(), cfg, zerolog.New(os.Stderr).Level(zerolog.WarnLevel).Hook(allowed), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { closeQueue(t, q) })
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	return q
}

// With the permissions of the documented values, every function of assay works, and
// the application gets its rewards.
func TestPermissionsOnKubernetesAreEnough(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	r := restrict(t)
	q := r.assay(t)
	require.NoError(t, q.Ready(ctx))

	app, refused := r.connect(t, "APP_NKEY", "_INBOX_app")
	rewards, err := app.SubscribeSync(SubjectRewards + ".>")
	require.NoError(t, err)
	js, err := jetstream.New(app)
	require.NoError(t, err)
	_, err = js.Publish(ctx, SubjectResponses+".run7", []byte(item("text")), jetstream.WithMsgID("1"))
	require.NoError(t, err)
	msg, err := rewards.NextMsgWithContext(ctx)
	require.NoError(t, err)
	require.Equal(t, SubjectRewards+".run7", msg.Subject)
	_, err = q.js.CreateConsumer(ctx, StreamRewards, jetstream.ConsumerConfig{Durable: "loader", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err) // as an operator does
	consumer, err := js.Consumer(ctx, StreamRewards, "loader")
	require.NoError(t, err)
	stored, err := consumer.Next(jetstream.FetchContext(ctx))
	require.NoError(t, err)
	require.NoError(t, stored.DoubleAck(ctx))
	direct, err := js.Stream(ctx, StreamRewards)
	require.NoError(t, err)
	first, err := direct.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(SubjectRewards+".run7"))
	require.NoError(t, err)
	require.Equal(t, stored.Data(), first.Data)
	answer, err := NewClient(app).Score(ctx, request("hello"))
	require.NoError(t, err)
	require.Len(t, answer.Results, 1)
	session := open(t, app, `{"open":{}}`)
	for sequence := range 3 { // more than one reply to one client
		sendLive(t, app, session, `{"text":"Hello. "}`, sequence+1)
	}
	require.NotEmpty(t, lines(t, sendLive(t, app, session, `{"close":{}}`, 4)))
	_, err = app.Request(SubjectLive+".gone.session", nil, jstest.Timeout)
	require.ErrorIs(t, err, nats.ErrNoResponders, "a replica that died")
	require.Empty(t, refused)

	rater, refused := r.connect(t, "LABELS_NKEY", "_INBOX_labels")
	receipt, err := rater.RequestWithContext(ctx, labels.SubjectFeedback, []byte(`{"items":[{"id":"r1","label":"compliant","response":"Thanks."}]}`))
	require.NoError(t, err)
	require.Contains(t, string(receipt.Data), `"accepted":1`)
	require.Empty(t, refused)

	labelsWork(t, q)
	registryWorks(t, q)

	_, err = js.Publish(ctx, SubjectResponses+".run7", []byte(`{"response":7}`)) // ends as a dead letter
	require.NoError(t, err)
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamDead))
}

// labelsWork stores, reads and erases labels and scored responses.
func labelsWork(t *testing.T, q *Queue) {
	t.Helper()
	ctx := jstest.Context(t)
	f := q.Labels()
	labelstest.Accepts(t, f, 2, 0, labelstest.Some(10, 2)...)
	labelstest.CaughtUp(t, f)
	require.NoError(t, f.KeepScored(ctx, []labels.ScoredResponse{labelstest.Scored("k1", "kept text")}))
	_, found, err := f.Scored(ctx, "k1")
	require.NoError(t, err)
	require.True(t, found)
	_, err = f.RecentScored(ctx, 10)
	require.NoError(t, err)
	_, err = f.Erase(ctx, "r10")
	require.NoError(t, err)
}

// registryWorks exercises models and events as replicas and trainers do.
func registryWorks(t *testing.T, q *Queue) {
	t.Helper()
	ctx := jstest.Context(t)
	registry := openRegistry(t, q)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), make([]byte, 1<<20), 0o600))
	for _, version := range []string{"v1", "v2"} {
		files, err := registry.Upload(ctx, version, dir)
		require.NoError(t, err)
		m := retrain.Model{Version: version, Files: files}
		require.NoError(t, registry.Register(ctx, m))
		require.NoError(t, registry.Download(ctx, m, filepath.Join(t.TempDir(), version)))
	}
	require.NoError(t, registry.Remove(ctx, "v1"))
	_, err := registry.Models(ctx)
	require.NoError(t, err)
	current, err := registry.SetCurrent(ctx, retrain.Current{Version: "v2"})
	require.NoError(t, err)
	require.Equal(t, current, <-registry.WatchCurrent(ctx))
	require.NoError(t, registry.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: "test"}))
	last, err := registry.LastEvent(ctx)
	require.NoError(t, err)
	require.NotZero(t, last)
	for _, err := range registry.Events(ctx, last-1) {
		require.NoError(t, err)
		break
	}
}

// No user may delete a stream, not even assay.
func TestPermissionsOfAssayOnKubernetes(t *testing.T) {
	t.Parallel()
	r := restrict(t)
	labelstest.Accepts(t, r.assay(t).Labels(), 1, 0, labelstest.Labeled("r1", bag.Violation))
	nc, refused := r.connect(t, "ASSAY_NKEY", "_INBOX")
	require.NoError(t, nc.Publish("$JS.SNAPSHOT.RESTORE."+labels.StreamFeedback+".id", nil)) // of an operator who restores a backup
	require.NoError(t, nc.Publish("$JS.API.STREAM.DELETE."+labels.StreamFeedback, nil))
	forbidden(t, refused, "$JS.API.STREAM.DELETE."+labels.StreamFeedback)
}

// forbidden waits for the permission violation of a subject.
func forbidden(t *testing.T, refused <-chan error, subject string) {
	t.Helper()
	select {
	case err := <-refused:
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.ErrorContains(t, err, `"`+subject+`"`)
	case <-time.After(jstest.Timeout):
		t.Fatalf("nothing forbids %s", subject)
	}
}
