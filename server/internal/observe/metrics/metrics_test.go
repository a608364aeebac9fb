package metrics_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
	"github.com/gyrohq/gyro/server/internal/observe/metrics"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/web/certs"
)

// ours are the families that Centrifugo does not have.
var ours = []string{
	"broker_canary_delay_seconds gauge broker_name shard",
	"broker_delivers gauge broker_name shard",
	"broker_nats_buffered_messages gauge broker_name",
	"broker_redis_map_cache_bytes gauge broker_name", "broker_redis_map_cache_channels gauge broker_name",
	"broker_redis_map_cache_drops_total counter broker_name reason", "broker_redis_map_cache_hits_total counter broker_name",
	"broker_redis_map_cache_loads_total counter broker_name", "broker_redis_map_cache_misses_total counter broker_name",
	"broker_nats_dropped_messages_total counter broker_name",
	"broker_nats_unreachable_servers gauge broker_name",
	"broker_postgres_connection_wait_seconds_total counter broker_name", "broker_postgres_connections_used gauge broker_name",
	"broker_postgres_rows_read_total counter broker_name",
	"broker_reconnects_total counter broker_name shard",
	"client_queue_largest_bytes gauge", "client_queue_oldest_seconds gauge", "client_queued_bytes gauge", "client_queued_clients gauge",
	"client_refusals_total counter limit",
	"consumers_given_up_total counter consumer_name",
	"consumers_lag gauge consumer_name part",
	"node_canary_delay_seconds gauge",
	"node_clock_skew_seconds gauge",
	"node_memory_limit_bytes gauge",
	"node_panics_total counter",
	"node_publish_to_write_seconds histogram channel_namespace 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10",
	"node_ready gauge",
	"proxy_streams gauge name",
	"proxy_streams_broken_total counter name",
	"shared_poll_notification_items_total counter result",
	"shared_poll_notification_messages_total counter result",
	"tls_certificate_expires_timestamp_seconds gauge host key",
	"tls_certificate_renewal_due_timestamp_seconds gauge host key",
	"tls_last_load_successful gauge host key",
	"user_status_calls_total counter kind result", "user_status_users_total counter kind",
	"config_last_reload_success_timestamp_seconds gauge", "config_last_reload_successful gauge", "log_dropped_lines_total counter",
	"token_verified_by_previous_key_total counter",
}

// families returns what dashboards rely on: name, type, labels, and buckets of histograms. The file has those of
// Centrifugo.
func families(t *testing.T) (list []string) {
	t.Helper()
	data, err := os.ReadFile("../../../../metrics/testdata/reference.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line, buckets, _ := strings.Cut(strings.TrimSpace(line), " :")
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		slices.Sort(words[2:])
		list = append(list, strings.Join(words, " ")+numbers(buckets))
	}
	list = append(list, ours...)
	slices.Sort(list)
	return list
}

// numbers writes numbers in one way, each with a space before it.
func numbers(text string) (s string) {
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			break
		}
		s += " " + fmt.Sprint(n)
	}
	return s
}

// fakeNode has a size and a health.
type fakeNode struct {
	api.Node
	inspector
	infos  []gyro.NodeInfo
	health []gyro.Health
}

type inspector struct{ gyro.Inspector }

func (n *fakeNode) Cluster() gyro.Cluster { return fakeCluster{node: n} }

func (n *fakeNode) Inspect() gyro.Inspector { return n }

type fakeCluster struct {
	gyro.Cluster
	node *fakeNode
}

func (c fakeCluster) Nodes(context.Context) ([]gyro.NodeInfo, error) { return c.node.infos, nil }

func (n *fakeNode) Load(context.Context) (observe.Load, error) { return observe.Load{}, nil }

func (n *fakeNode) Health() []gyro.Health { return n.health }
func (n *fakeNode) Panics() uint64        { return 8 }

func (n *fakeNode) Channels(context.Context, string) (map[string]int, error) { return nil, nil }

func newNode() *fakeNode {
	return &fakeNode{
		infos:  []gyro.NodeInfo{{NumClients: 5, NumUsers: 4, NumSubs: 7, NumChannels: 3}, {NumClients: 50}},
		health: []gyro.Health{{Part: "node", Delay: 2 * time.Millisecond}, {Part: "x"}},
	}
}

func newRegistry(c metrics.Config) *metrics.Registry {
	c.Logger = slog.New(slog.DiscardHandler)
	return metrics.New(c)
}

// brokers are those that there are, which have not been run, and one that nobody knows.
func brokers(t *testing.T) map[string]broker.Traits {
	e, err := redis.New(redis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := nats.New(nats.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := postgres.New(postgres.Config{DSN: "postgres://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]broker.Traits{
		"rows": p.Describe(),
		"":     mapcache.New(e.Broker(), mapcache.Config{}).Describe(), "fast": n.Describe(), "memory": memory.New(memory.Config{}).Describe(),
		"sharded": {Name: "strange", Health: func() []broker.Health {
			return []broker.Health{{Delay: time.Millisecond, Reconnects: 3}, {Delay: time.Second, Err: errors.New("x")}}
		}},
	}
}

// full is a registry that exports everything, with something to export.
func full(t *testing.T, c metrics.Config) *metrics.Registry {
	c.RecoveredPublications, c.Version = true, "v1.2.3"
	r := newRegistry(c)
	n := newNode()
	r.Watch(n)
	r.ConnectionLimit(func() uint64 { return 6 })
	r.Certificates(func() []certs.Status {
		return []certs.Status{
			{Key: "http_server.tls.cert_pem", Refused: true, Expires: time.Unix(200, 0), RenewalDue: time.Unix(100, 0)},
			{Key: "http_server.tls_autocert", Host: "rt.example.com"},
		}
	})
	r.Brokers(brokers(t))
	if _, err := r.Surveys(n).Channels(t.Context(), ""); err != nil {
		t.Error(err)
	}
	r.Requests().Counter("/api/publish")(http.MethodPost, http.StatusOK)
	turn := &observe.Turn{
		Transports:    []observe.Transport{{Name: "websocket"}},
		Commands:      []observe.Command{{Method: observe.MessageRPC, Code: 108}},
		Pongs:         []observe.Pong{{Transport: "websocket"}},
		Recoveries:    []observe.Recovery{{}},
		Disconnects:   []observe.Disconnect{{Disconnect: protocol.DisconnectSlow, Count: 3}},
		Unsubscribes:  []observe.Unsubscribe{{Code: 2500, Count: 4}},
		Filtered:      []observe.Filtered{{Count: 1}},
		Connections:   []observe.Connections{{Transport: "websocket", Connected: 1}},
		Subscriptions: []observe.Subscriptions{{Subscribed: 1}},
		Writes:        []observe.Timing{{Count: 1}},
		Lags:          []observe.Timing{{Count: 1}},
		Broadcasts:    []observe.Timing{{Count: 1}},
	}
	turn.Refusals[observe.LimitQueue] = 3
	traffic := observe.Traffic{Messages: 1, Bytes: 1}
	turn.Transports[0].Sent[observe.MessageRPC], turn.Transports[0].Received[observe.MessageRPC] = traffic, traffic
	observer := r.Observer()
	observer.Turn(turn)
	observer.Totals.AddSent(observe.EventPublication, "", 1)
	observer.Totals.AddReceived(observe.EventPublication, "")
	observer.Totals.AddAction(observe.ActionSurvey, "", 1)
	for _, e := range []observe.Event{observe.EventPublication, observe.EventMapPublication, observe.EventMapRemoval} {
		observer.Totals.AddSuppressed(observe.Suppressed{Event: e, Reason: channel.SuppressVersion})
	}
	observer.Totals.AddClose(observe.Close{Transport: "websocket", Code: 3000})
	c1 := r.Consumers()("c1")
	c1.Processed(2)
	c1.Failed()
	c1.GaveUp(1)
	c1.Lag("stream", 5)
	o := r.API("http")
	o.Executed(api.MethodPublish, 30*time.Millisecond, nil, nil)
	o.Called("reload", 30*time.Millisecond)
	o.Called("reload", 20*time.Millisecond)
	o.Failed(api.MethodPublish, api.StageDecode)
	proxies := r.Proxies()
	call, stream := proxies("http", proxy.Connect, "default"), proxies("grpc", proxy.SubscribeStream, "chat")
	call.Began()
	call.Ended(30*time.Millisecond, true)
	stream.Opened()
	stream.Opened()
	stream.Closed(true)
	poll(r)
	process(r)
	return r
}

// process tells of everything that concerns the process.
func process(r *metrics.Registry) {
	r.Log(func() uint64 { return 3 })
	r.Reloads()(errors.New("a wrong file"))
	r.PreviousKey()()
}

// TestProcess: lost lines, a reload that was refused, and a token of the previous secret are in the numbers.
func TestProcess(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	process(r)
	text := scrape(t, r, "").Body.String()
	for _, line := range []string{"gyro_log_dropped_lines_total 3\n", "gyro_config_last_reload_successful 0\n", "gyro_config_last_reload_success_timestamp_seconds 1.", "gyro_token_verified_by_previous_key_total 1\n"} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("there is no %s", line)
		}
	}
}

// poll tells of everything that happens in shared poll channels.
func poll(r *metrics.Registry) {
	polled, answered := r.Polls(func(ch string) string { return strings.TrimSuffix(ch, ":x") })
	polled(&observe.Polled{Kind: observe.PollTrack, Channel: "ns:x", Keys: 9, Changed: 2, Unchanged: 6, Removed: 1, Took: time.Second, Waited: time.Millisecond})
	polled(&observe.Polled{Kind: observe.PollInterval, Channel: "ns:x", Keys: 3, Failed: true})
	polled(&observe.Polled{Kind: observe.PollCycle, Channel: "ns:x", Took: time.Second, Work: 2 * time.Second})
	polled(&observe.Polled{Kind: observe.PollPublished, Channel: "ns:x", Changed: 1})
	polled(&observe.Polled{Kind: observe.PollPublished, Channel: "ns:x"})
	polled(&observe.Polled{Kind: observe.PollNotified, Channel: "ns:x", Failed: true})
	answered("default", 10, 3)
	status := r.UserStatus()
	status("online", 512, nil)
	status("get", 3, errors.New("gone"))
	notified := r.Notifications()
	notified(&notify.Received{Tracked: 5, Ignored: 7, Invalid: 2})
	notified(&notify.Received{Malformed: true})
	r.WatchPolls(fakePolls{})
}

type fakePolls struct{ channel.Polls }

func (fakePolls) Size() (channels, keys int) { return 2, 30 }

// TestPolls: what is told of shared poll channels is in the numbers.
func TestPolls(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	poll(r)
	text := scrape(t, r, "").Body.String()
	for _, line := range []string{
		`gyro_shared_poll_items_count{channel_namespace="ns",result="changed",trigger="track"} 2`,
		`gyro_shared_poll_items_count{channel_namespace="ns",result="unchanged",trigger="track"} 6`,
		`gyro_shared_poll_items_count{channel_namespace="ns",result="removed",trigger="track"} 1`,
		`gyro_shared_poll_items_count{channel_namespace="ns",result="polled",trigger="interval"} 3`,
		`gyro_shared_poll_handler_error_count{channel_namespace="ns",trigger="interval"} 1`,
		`gyro_shared_poll_cycle_work_duration_seconds_sum{channel_namespace="ns"} 2`,
		`gyro_shared_poll_sem_wait_duration_seconds_sum{channel_namespace="ns",trigger="track"} 0.001`,
		`gyro_shared_poll_publish_count{channel_namespace="ns",result="applied"} 1`,
		`gyro_shared_poll_publish_count{channel_namespace="ns",result="skipped"} 1`,
		`gyro_shared_poll_notify_count{channel_namespace="ns"} 1`,
		`gyro_shared_poll_dropped_notify_count{channel_namespace="ns"} 1`,
		`gyro_shared_poll_notification_messages_total{result="accepted"} 1`,
		`gyro_shared_poll_notification_messages_total{result="malformed"} 1`,
		`gyro_shared_poll_notification_items_total{result="tracked"} 5`,
		`gyro_shared_poll_notification_items_total{result="ignored"} 7`,
		`gyro_shared_poll_notification_items_total{result="malformed"} 2`,
		`gyro_user_status_calls_total{kind="online",result="ok"} 1`, `gyro_user_status_calls_total{kind="get",result="error"} 1`,
		`gyro_user_status_users_total{kind="online"} 512`,
		`gyro_shared_poll_num_channels 2`, `gyro_shared_poll_num_keys 30`,
		`gyro_shared_poll_proxy_request_items_sum{name="default"} 10`, `gyro_shared_poll_proxy_response_items_sum{name="default"} 3`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
}

// TestCertificates: the end of each certificate is there, and whether what was read last is in force.
func TestCertificates(t *testing.T) {
	text := scrape(t, full(t, metrics.Config{Namespace: "gyro"}), "").Body.String()
	const file, host = `{host="",key="http_server.tls.cert_pem"}`, `{host="rt.example.com",key="http_server.tls_autocert"}`
	for line, there := range map[string]bool{
		"gyro_tls_certificate_expires_timestamp_seconds" + file + " 200": true, "gyro_tls_certificate_renewal_due_timestamp_seconds" + file + " 100": true,
		"gyro_tls_last_load_successful" + file + " 0": true, "gyro_tls_last_load_successful" + host + " 1": true,
		"gyro_tls_certificate_expires_timestamp_seconds" + host: false, // none has been obtained yet
	} {
		if strings.Contains(text, line) != there {
			t.Errorf("%s is there: %v", line, !there)
		}
	}
}

func scrape(t *testing.T, r *metrics.Registry, accept string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", accept)
	r.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

// parse reads the text format.
func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	list, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return list
}

// describe returns a family as families does.
func describe(name string, f *dto.MetricFamily) string {
	words := []string{name, strings.ToLower(f.GetType().String())}
	for _, l := range f.Metric[0].Label {
		words = append(words, l.GetName())
	}
	slices.Sort(words[2:])
	for _, b := range f.Metric[0].GetHistogram().GetBucket() {
		if bound := fmt.Sprint(b.GetUpperBound()); bound != "+Inf" {
			words = append(words, bound)
		}
	}
	return strings.Join(words, " ")
}

// TestFamilies compares names, types, labels and buckets with the specification.
func TestFamilies(t *testing.T) {
	for _, namespace := range []string{"gyro", "centrifugo"} {
		text := scrape(t, full(t, metrics.Config{Namespace: namespace}), "").Body.String()
		var got []string
		runtime := 0
		for name, f := range parse(t, text) {
			if short, ours := strings.CutPrefix(name, namespace+"_"); ours {
				got = append(got, describe(short, f))
			} else if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				runtime++
			} else {
				t.Errorf("%s is not ours", name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(families(t), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", namespace, diff)
		}
		if runtime < 30 {
			t.Errorf("%d metrics of runtime and process", runtime)
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems { // of the names that are Gyro's own
			short := strings.TrimPrefix(p.Metric, namespace+"_")
			if slices.ContainsFunc(ours, func(line string) bool { return strings.HasPrefix(line, short+" ") }) {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}

// TestDocumentation: docs/metrics.md lists what there is, and nothing else.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	buckets := regexp.MustCompile(`buckets (.*)`)
	var got []string
	for line := range strings.Lines(string(data)) {
		c := strings.Split(line, "|")
		if len(c) != 6 || !strings.HasPrefix(c[1], " `") {
			continue
		}
		words := strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(c[1] + c[2] + c[3]))
		slices.Sort(words[2:])
		row := strings.Join(words, " ")
		if m := buckets.FindStringSubmatch(c[4]); m != nil {
			row += numbers(m[1])
		}
		got = append(got, row)
	}
	slices.Sort(got)
	if diff := cmp.Diff(families(t), got); diff != "" {
		t.Errorf("docs/metrics.md (-want +got):\n%s", diff)
	}
}

// values are the lines of ours, without duration and help.
func values(t *testing.T, r *metrics.Registry) []string {
	t.Helper()
	var list []string
	s := bufio.NewScanner(scrape(t, r, "").Body)
	for s.Scan() {
		if strings.HasPrefix(s.Text(), "gyro_") {
			list = append(list, strings.TrimPrefix(s.Text(), "gyro_"))
		}
	}
	return list
}

func wantValues(t *testing.T, r *metrics.Registry, prefix string, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(values(t, r), func(s string) bool { return !strings.HasPrefix(s, prefix) })
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", prefix, diff)
	}
}

func TestBrokers(t *testing.T) {
	r := full(t, metrics.Config{Namespace: "gyro"})
	wantValues(t, r, "broker_canary", `broker_canary_delay_seconds{broker_name="sharded",shard="0"} 0.001`,
		`broker_canary_delay_seconds{broker_name="sharded",shard="1"} 1`)
	wantValues(t, r, "broker_delivers", `broker_delivers{broker_name="",shard="0"} 0`, `broker_delivers{broker_name="fast",shard="0"} 0`,
		`broker_delivers{broker_name="rows",shard="0"} 0`,
		`broker_delivers{broker_name="sharded",shard="0"} 1`, `broker_delivers{broker_name="sharded",shard="1"} 0`)
	wantValues(t, r, "broker_reconnects", `broker_reconnects_total{broker_name="",shard="0"} 0`, `broker_reconnects_total{broker_name="fast",shard="0"} 0`,
		`broker_reconnects_total{broker_name="rows",shard="0"} 0`,
		`broker_reconnects_total{broker_name="sharded",shard="0"} 3`, `broker_reconnects_total{broker_name="sharded",shard="1"} 0`)
	wantValues(t, r, "broker_redis_pub_sub_dropped", `broker_redis_pub_sub_dropped_messages{broker_name="",channel_type="client"} 0`,
		`broker_redis_pub_sub_dropped_messages{broker_name="",channel_type="control"} 0`)
	wantValues(t, r, "broker_nats", `broker_nats_buffered_messages{broker_name="fast"} 0`, `broker_nats_dropped_messages_total{broker_name="fast"} 0`, `broker_nats_unreachable_servers{broker_name="fast"} 0`)
}

func TestAPIErrors(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	c1 := r.Consumers()("c1")
	c1.Processed(2)
	c1.Failed()
	c1.GaveUp(1)
	c1.Lag("stream", 5)
	o := r.API("http")
	broadcast := &api.BroadcastResult{Responses: []api.PublishResponse{{}, {Error: api.ErrUnknownChannel}, {Error: api.ErrUnknownChannel}, {Error: api.ErrInternal}}}
	for _, m := range api.Methods() {
		o.Executed(m, time.Millisecond, nil, nil)
	}
	o.Executed(api.MethodHistory, time.Millisecond, nil, api.ErrNotAvailable)
	o.Executed(api.MethodRPC, time.Millisecond, nil, &api.Error{Code: 123456, Message: "x"})
	o.Executed(api.MethodRPC, time.Millisecond, nil, &api.Error{Code: 654321, Message: "x"})
	o.Executed(api.MethodInfo, time.Millisecond, nil, errors.New("x"))
	o.Executed(api.MethodBroadcast, time.Millisecond, broadcast, nil)
	o.Executed(api.MethodBatch, time.Millisecond, &api.BatchResponse{Replies: []api.Reply{
		{Result: api.ErrBadRequest}, {Result: api.ErrBadRequest}, {Result: new(api.InfoResult)},
		{Result: broadcast},
	}}, nil)
	for _, s := range []api.Stage{api.StageRead, api.StageDecode, api.StageEncode} {
		o.Failed(api.MethodInfo, s)
	}
	line := func(method, code string, n int) string {
		return fmt.Sprintf(`api_command_errors_total{error=%q,method=%q,protocol="http"} %d`, code, method, n)
	}
	wantValues(t, r, "api_command_errors_total",
		line("broadcast_publish", "100", 2), line("info", "100", 1), line("broadcast_publish", "102", 4), line("batch", "107", 2),
		line("history", "108", 1), line("info", "marshal", 1), line("rpc", "other", 2), line("info", "read_body", 1), line("info", "unmarshal", 1))
	count := 0
	for _, v := range values(t, r) {
		if strings.HasPrefix(v, "api_command_duration_seconds_count") {
			count++
		}
	}
	if count != len(api.Methods()) {
		t.Errorf("durations of %d methods, want %d", count, len(api.Methods()))
	}
}

// TestRequests: what clients make up does not become a label.
func TestRequests(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	q := r.Requests()
	other, x := q.Counter(metrics.Other), q.Counter("/x")
	for i := range 100 {
		other(fmt.Sprintf("METHOD-%d", i), 404)
		x(http.MethodGet, 200+i%2)
	}
	wantValues(t, r, "node_incoming", `node_incoming_http_requests_total{method="GET",path="/x",status="200"} 50`,
		`node_incoming_http_requests_total{method="GET",path="/x",status="201"} 50`,
		`node_incoming_http_requests_total{method="other",path="other",status="404"} 100`)
}

// TestNativeHistograms: times of the server API have neither classic buckets nor a summary then.
func TestNativeHistograms(t *testing.T) {
	text := scrape(t, full(t, metrics.Config{Namespace: "gyro", NativeHistograms: true}), "").Body.String()
	for name, f := range parse(t, text) {
		if ours := strings.HasPrefix(name, "gyro_"); ours && (f.GetType() == dto.MetricType_SUMMARY || len(f.Metric[0].GetHistogram().GetBucket()) > 1) {
			t.Errorf("%s: %s", name, f)
		}
	}
}

// TestNegotiation: who asks for OpenMetrics first gets the names as they are.
func TestNegotiation(t *testing.T) {
	r := full(t, metrics.Config{Namespace: "gyro"})
	w := scrape(t, r, "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3")
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("content type %s", got)
	}
	if !strings.Contains(w.Body.String(), "\ngyro_broker_redis_pub_sub_errors{") {
		t.Error("another name")
	}
}

// TestProtocols: the ways into the API share their metrics.
func TestProtocols(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	for _, protocol := range []string{"http", "consuming"} {
		r.API(protocol).Executed(api.MethodPublish, time.Millisecond, nil, nil)
		r.API(protocol).Failed(api.MethodPublish, api.StageDecode)
	}
	all := values(t, r)
	for _, prefix := range []string{"api_command_duration_seconds_count", "api_command_errors_total"} {
		n := 0
		for _, v := range all {
			if strings.HasPrefix(v, prefix) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%s: %d values, want 2", prefix, n)
		}
	}
}
