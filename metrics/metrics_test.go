package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/metrics"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// gather collects metrics.
func gather(t *testing.T, m *metrics.Metrics) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	list, err := r.Gather()
	if err != nil {
		t.Error(err)
	}
	return list
}

// fakeNode has a size and a health.
type fakeNode struct {
	gyro.Inspector
	infos  []gyro.NodeInfo
	health []gyro.Health
	hangs  bool
}

func (n *fakeNode) Cluster() gyro.Cluster { return fakeCluster{node: n} }

func (n *fakeNode) Inspect() gyro.Inspector { return n }

type fakeCluster struct {
	gyro.Cluster
	node *fakeNode
}

func (c fakeCluster) Nodes(ctx context.Context) ([]gyro.NodeInfo, error) {
	if c.node.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.node.infos, nil
}

func (n *fakeNode) Load(context.Context) (observe.Load, error) {
	return observe.Load{QueuedClients: 2, QueuedBytes: 300, LargestQueue: 200, OldestQueued: time.Second, ClockSkew: -time.Millisecond}, nil
}

func (n *fakeNode) Health() []gyro.Health { return n.health }
func (n *fakeNode) Panics() uint64        { return 8 }

func fake() *fakeNode {
	return &fakeNode{
		infos:  []gyro.NodeInfo{{NumClients: 5, NumUsers: 4, NumSubs: 7, NumChannels: 3}, {NumClients: 50}},
		health: []gyro.Health{{Part: "node", Delay: 2 * time.Millisecond}, {Part: "x"}},
	}
}

// named is a client with a name that is not known.
func named() observe.Agent { return (&observe.Observer{}).NewAgent("x", "", nil) }

// busy is a turn with something of everything, apart from errors.
func busy() *observe.Turn {
	t := &observe.Turn{
		Transports:   []observe.Transport{{Name: "websocket"}, {Name: "sse"}},
		Pongs:        []observe.Pong{{Transport: "websocket", Took: time.Millisecond}},
		Recoveries:   []observe.Recovery{{Recovered: true, Publications: 7}},
		Disconnects:  []observe.Disconnect{{Count: 1}, {Disconnect: protocol.DisconnectConnectionClosed, Count: 2}, {Disconnect: protocol.DisconnectSlow, Count: 3}},
		Unsubscribes: []observe.Unsubscribe{{Code: 2500, Count: 4}},
		Connections:  []observe.Connections{{Transport: "websocket", Agent: named(), Connected: 3, Disconnected: 1}},
		Subscriptions: []observe.Subscriptions{
			{Subscribed: 3, Unsubscribed: 2}, {Agent: named(), Subscribed: 2, Unsubscribed: 1}, {Namespace: "chat", Subscribed: 2},
		},
		Deliveries: 12,
		Filtered:   []observe.Filtered{{Count: 5}},
		Lags:       []observe.Timing{{Took: 3 * time.Millisecond, Count: 2}, {Took: -time.Second, Count: 1}},
		Broadcasts: []observe.Timing{{Took: 30 * time.Microsecond, Count: 2}},
		Writes:     []observe.Timing{{Took: 4 * time.Millisecond, Count: 2}, {Namespace: "chat", Took: time.Second, Count: 1}},
		Bytes:      1000,
	}
	for i := range 64 {
		t.Commands = append(t.Commands, observe.Command{Method: observe.Message(1 + i%11), Took: time.Duration(i*i) * time.Microsecond})
	}
	for _, m := range []observe.Message{observe.MessagePublish, observe.MessagePushPublication, observe.MessageSubscribe} {
		t.Transports[0].Sent[m] = observe.Traffic{Messages: 30, Bytes: 4000}
		t.Transports[0].Received[m] = observe.Traffic{Messages: 20, Bytes: 2000}
	}
	t.Refusals[observe.LimitQueue] = 3
	return t
}

// full exports everything that there is, with something to export.
func full(t *testing.T, c metrics.Config) *metrics.Metrics {
	t.Helper()
	c.RecoveredPublications, c.Version = true, "v1.2.3"
	m := metrics.New(c)
	m.Watch(fake())
	m.ConnectionLimit(func() uint64 { return 6 })
	m.Survey("channels", time.Millisecond)
	m.Brokers(map[string]broker.Traits{"": {Name: "strange", Expiry: func() broker.Expiry {
		return broker.Expiry{Removed: 5, Failures: 2, Lag: 3 * time.Second}
	}, Health: func() []broker.Health {
		return []broker.Health{{Delay: time.Millisecond, Reconnects: 3}, {Delay: time.Second, Err: errors.New("x")}}
	}}, "local": {Name: "memory", Local: true}})
	o := m.Observer()
	turn := busy()
	turn.Commands[0].Code = 108
	o.Turn(turn)
	o.Totals.AddSent(observe.EventPublication, "", 2)
	o.Totals.AddReceived(observe.EventControl, "")
	o.Totals.AddAction(observe.ActionHistory, "", 1)
	for _, e := range []observe.Event{observe.EventPublication, observe.EventMapPublication, observe.EventMapRemoval} {
		o.Totals.AddSuppressed(observe.Suppressed{Event: e, Reason: channel.SuppressVersion})
	}
	o.Totals.AddClose(observe.Close{Transport: "websocket", Code: 3000})
	return m
}

// reference returns the families of testdata/reference.txt that come from a node: the type, labels,
// and buckets.
func reference(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.txt")
	if err != nil {
		t.Fatal(err)
	}
	// Others come from the server, from the engines themselves, or from what this build does not have.
	elsewhere := []string{"#", "api_", "broker_redis_", "broker_postgres_", "consumers_", "proxy_", "shared_poll_", "node_incoming_http_requests_total"}
	families := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		rest, bounds, _ := strings.Cut(rest, ":")
		kind, labels, _ := strings.Cut(rest, " ")
		words := append([]string{kind}, slices.Sorted(slices.Values(strings.Fields(labels)))...)
		for _, b := range strings.Fields(bounds) {
			bound, err := strconv.ParseFloat(b, 64)
			if err != nil {
				t.Error(err)
			}
			words = append(words, fmt.Sprint(bound))
		}
		families[name] = strings.Join(words, " ")
	}
	return families
}

// describe returns a family as reference does.
func describe(f *dto.MetricFamily) string {
	words := []string{strings.ToLower(f.GetType().String())}
	for _, l := range f.Metric[0].Label {
		words = append(words, l.GetName())
	}
	slices.Sort(words[1:])
	for _, b := range f.Metric[0].GetHistogram().GetBucket() {
		words = append(words, fmt.Sprint(b.GetUpperBound()))
	}
	return strings.Join(words, " ")
}

// ours are the families that the reference does not have.
var ours = map[string]string{
	"broker_canary_delay_seconds":   "gauge broker_name shard",
	"broker_delivers":               "gauge broker_name shard",
	"broker_reconnects_total":       "counter broker_name shard",
	"client_queue_largest_bytes":    "gauge",
	"client_queue_oldest_seconds":   "gauge",
	"client_queued_bytes":           "gauge",
	"client_queued_clients":         "gauge",
	"client_refusals_total":         "counter limit",
	"node_canary_delay_seconds":     "gauge",
	"node_clock_skew_seconds":       "gauge",
	"node_publish_to_write_seconds": "histogram channel_namespace 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10",
	"node_panics_total":             "counter",
	"node_ready":                    "gauge",
}

// TestFamilies holds names, types, labels and buckets against the reference.
func TestFamilies(t *testing.T) {
	want := reference(t)
	for name, family := range ours {
		want[name] = family
	}
	for _, namespace := range []string{"", "centrifugo"} {
		got := make(map[string]string)
		for _, f := range gather(t, full(t, metrics.Config{Namespace: namespace})) {
			short, ok := strings.CutPrefix(f.GetName(), map[string]string{"": "gyro_", "centrifugo": "centrifugo_"}[namespace])
			if !ok {
				t.Errorf("%s has another prefix than %q", f.GetName(), namespace)
			}
			got[short] = describe(f)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestNative: without summaries and classic buckets, nothing else changes.
func TestNative(t *testing.T) {
	want := reference(t)
	for _, f := range gather(t, full(t, metrics.Config{NativeHistograms: true})) {
		name := strings.TrimPrefix(f.GetName(), "gyro_")
		family, known := want[name]
		if !known {
			family = ours[name]
		}
		if h := f.Metric[0].Histogram; h != nil {
			labels := strings.FieldsFunc(family, func(r rune) bool { return r == ' ' })
			family = strings.Join(slices.DeleteFunc(labels, func(s string) bool { return s[0] >= '0' && s[0] <= '9' }), " ")
			if h.GetSchema() != 3 || h.GetSampleCount() == 0 || len(h.PositiveSpan) == 0 {
				t.Errorf("%s: %v", name, h)
			}
		}
		if got := describe(f); got != family || strings.HasPrefix(got, "summary") {
			t.Errorf("%s is %s, want %s", name, got, family)
		}
		delete(want, name)
	}
	for name, family := range want {
		if !strings.HasPrefix(family, "summary") {
			t.Errorf("%s is missing", name)
		}
	}
}

// lines are the metrics whose names begin with a prefix, as text, but for the zeros of TestZeros.
func lines(t *testing.T, m *metrics.Metrics, prefix string) (list []string) {
	t.Helper()
	for line := range strings.Lines(exposition(t, m)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "gyro_")
		zero := strings.HasSuffix(line, " 0") && slices.ContainsFunc(fromTheStart, func(name string) bool { return strings.HasPrefix(line, name+"{") })
		if strings.HasPrefix(line, prefix) && !zero {
			list = append(list, line)
		}
	}
	return list
}

// fromTheStart are counters that are there before they have counted anything.
var fromTheStart = []string{"client_num_server_disconnects", "client_recover", "client_refusals_total"}

// TestZeros: Prometheus sees the first of what alerts watch for as a growth.
func TestZeros(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.Observer().Turn(&observe.Turn{Subscriptions: []observe.Subscriptions{{Subscribed: 1}}})
	text := exposition(t, m)
	for _, line := range []string{
		`client_num_server_disconnects{code="3008"}`, `client_num_server_disconnects{code="3500"}`, `client_refusals_total{limit="queue_size"}`,
		`client_recover{channel_namespace="",has_recovered_publications="no",recovered="no"}`,
	} {
		if !strings.Contains(text, "gyro_"+line+" 0\n") {
			t.Errorf("there is no %s 0 in\n%s", line, text)
		}
	}
	// The end of a connection by the client is none of the server's.
	if strings.Contains(text, `code="3000"`) {
		t.Errorf("it has code 3000:\n%s", text)
	}
}

func wantLines(t *testing.T, m *metrics.Metrics, prefix string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(t, m, prefix)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", prefix, diff)
	}
}

// TestCodes: codes that applications make up are counted together, and ends that the server did not
// want are not counted.
func TestCodes(t *testing.T) {
	m := metrics.New(metrics.Config{})
	turn := &observe.Turn{Unsubscribes: []observe.Unsubscribe{{Code: 2501, Count: 1}, {Code: 2600, Count: 1}}}
	for _, code := range []uint32{0, 100, 113, 400, 1000, 1999} {
		turn.Commands = append(turn.Commands, observe.Command{Method: observe.MessageRPC, Code: code})
	}
	for _, code := range []uint32{0, 3000, 3008, 3508, 4000, 4999} {
		turn.Disconnects = append(turn.Disconnects, observe.Disconnect{Disconnect: protocol.Disconnect{Code: code}, Count: 3})
	}
	o := m.Observer()
	o.Turn(turn)
	for _, code := range []uint16{0, 1001, 3001, 4500, 4501} {
		o.Totals.AddClose(observe.Close{Transport: "t", Code: code})
	}
	const space = `channel_namespace=""`
	wantLines(t, m, "client_num_", `client_num_reply_errors{`+space+`,code="100",method="rpc"} 1`, `client_num_reply_errors{`+space+`,code="113",method="rpc"} 1`,
		`client_num_reply_errors{`+space+`,code="other",method="rpc"} 3`,
		`client_num_server_disconnects{code="3008"} 3`, `client_num_server_disconnects{code="3508"} 3`, `client_num_server_disconnects{code="other"} 6`,
		`client_num_server_unsubscribes{`+space+`,code="2501"} 1`, `client_num_server_unsubscribes{`+space+`,code="other"} 1`)
	wantLines(t, m, "transport_", `transport_outgoing_close_count{code="0",transport="t"} 1`, `transport_outgoing_close_count{code="1001",transport="t"} 1`,
		`transport_outgoing_close_count{code="3001",transport="t"} 1`, `transport_outgoing_close_count{code="other",transport="t"} 2`)
}

// TestNamespaces: what happens in the channels of a namespace is under its name, and what software the program knows
// under the software's.
func TestNamespaces(t *testing.T) {
	m := metrics.New(metrics.Config{ClientNames: []string{"js"}, ChannelNamespace: func(ch string) string {
		before, _, _ := strings.Cut(ch, ":")
		return before
	}})
	o := m.Observer()
	if o.Namespace("chat:1") != "chat" {
		t.Error("the observer has no namespaces")
	}
	js := o.NewAgent("js", "1", nil)
	for range 2 { // in two orders: the latest goes to the front
		o.Turn(&observe.Turn{
			Connections:   []observe.Connections{{Transport: "t", Agent: js, Connected: 2, Disconnected: 1}},
			Subscriptions: []observe.Subscriptions{{Namespace: "chat", Agent: js, Subscribed: 2}, {Subscribed: 1}},
			Transports:    []observe.Transport{{Name: "t"}, {Name: "t", Namespace: "chat"}},
			Commands:      []observe.Command{{Method: observe.MessagePublish, Namespace: "chat", Code: 103}, {Method: observe.MessageRPC}},
			Unsubscribes:  []observe.Unsubscribe{{Namespace: "chat", Code: 2500, Count: 1}, {Code: 2500, Count: 2}},
			Recoveries:    []observe.Recovery{{Namespace: "chat"}},
			Filtered:      []observe.Filtered{{Namespace: "chat", Count: 3}},
			Writes:        []observe.Timing{{Namespace: "chat", Took: 3 * time.Millisecond, Count: 2}},
		})
	}
	o.Totals.AddAction(observe.ActionHistory, "chat", 2)
	wantLines(t, m, "client_con", `client_connections_accepted{accept_protocol="",client_name="js",client_version="unregistered",transport="t"} 4`,
		`client_connections_inflight{accept_protocol="",client_name="js",client_version="unregistered",transport="t"} 2`)
	wantLines(t, m, "client_subscriptions_inflight", `client_subscriptions_inflight{channel_namespace="",client_name="unnamed"} 2`,
		`client_subscriptions_inflight{channel_namespace="chat",client_name="js"} 4`)
	wantLines(t, m, "client_num", `client_num_reply_errors{channel_namespace="chat",code="103",method="publish"} 2`,
		`client_num_server_unsubscribes{channel_namespace="",code="2500"} 4`, `client_num_server_unsubscribes{channel_namespace="chat",code="2500"} 2`)
	wantLines(t, m, "client_command_duration_seconds_count", `client_command_duration_seconds_count{channel_namespace="",method="rpc"} 2`,
		`client_command_duration_seconds_count{channel_namespace="chat",method="publish"} 2`)
	wantLines(t, m, "client_recover", `client_recover{channel_namespace="chat",has_recovered_publications="no",recovered="no"} 2`)
	wantLines(t, m, "node_tags", `node_tags_filter_dropped_publications{channel_namespace="chat"} 6`)
	wantLines(t, m, "node_publish_to_write_seconds_count", `node_publish_to_write_seconds_count{channel_namespace="chat"} 4`)
	wantLines(t, m, "node_action", `node_action_count{action="add_client",channel_namespace=""} 4`,
		`node_action_count{action="add_subscription",channel_namespace=""} 2`, `node_action_count{action="add_subscription",channel_namespace="chat"} 4`,
		`node_action_count{action="history",channel_namespace="chat"} 2`, `node_action_count{action="remove_client",channel_namespace=""} 2`)
}

// TestClientLabels: versions of HTTP and labels of the application are labels, of so many combinations as the program wants.
func TestClientLabels(t *testing.T) {
	var log logtest
	m := metrics.New(metrics.Config{
		AcceptProtocol: true, ClientLabels: []string{"tier", "region"}, ClientLabelSets: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	o := m.Observer()
	free, none := o.NewAgent("", "", map[string]string{"tier": "free"}), o.NewAgent("", "", nil)
	paid, eu := o.NewAgent("", "", map[string]string{"tier": "paid"}), o.NewAgent("", "", map[string]string{"region": "eu"})
	o.Turn(&observe.Turn{
		Connections: []observe.Connections{
			{Transport: "t", HTTP: 1, Agent: free, Connected: 2, Disconnected: 1}, {Transport: "t", HTTP: 2, Agent: free, Connected: 1},
			{Transport: "t", Agent: none, Connected: 1}, {Transport: "t", HTTP: 3, Agent: paid, Connected: 1}, {Transport: "t", HTTP: 3, Agent: eu, Connected: 1},
		},
		Subscriptions: []observe.Subscriptions{{Agent: free, Subscribed: 3, Unsubscribed: 1}, {Agent: paid, Subscribed: 1}, {Agent: eu, Subscribed: 1}},
	})
	line := func(http, region, tier string, n int) string {
		return fmt.Sprintf(`client_connections_inflight{accept_protocol=%q,app_region=%q,app_tier=%q,client_name="unnamed",client_version="unversioned",transport="t"} %d`,
			http, region, tier, n)
	}
	wantLines(t, m, "client_connections_in", line("", "", "", 1), line("h1", "", "free", 1), line("h2", "", "free", 1), line("h3", "other", "other", 2))
	wantLines(t, m, "client_subscriptions_in", `client_subscriptions_inflight{app_region="",app_tier="free",channel_namespace="",client_name="unnamed"} 2`,
		`client_subscriptions_inflight{app_region="other",app_tier="other",channel_namespace="",client_name="unnamed"} 2`)
	if got := log.next(); !strings.Contains(got, "labels of clients have too many values") || !strings.Contains(got, "limit=1") {
		t.Errorf("logged: %s", got)
	}
}

// logtest hands over what is logged.
type logtest struct {
	once  sync.Once
	lines chan string
}

func (l *logtest) made() chan string {
	l.once.Do(func() { l.lines = make(chan string, 10) })
	return l.lines
}

func (l *logtest) Write(p []byte) (int, error) {
	l.made() <- string(p)
	return len(p), nil
}

func (l *logtest) next() string { return <-l.made() }

// TestNode: numbers are at most a second old, and a loop that hangs does not keep a scrape from the rest.
func TestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := metrics.New(metrics.Config{Version: "v\xff"}), fake()
		n.hangs = true
		m.Watch(n)
		wantLines(t, m, "node_", `node_build{version="v?"} 1`, "node_canary_delay_seconds 0.002", "node_panics_total 8", "node_ready 1")
		n.hangs = false
		wantLines(t, m, "client_queue", "client_queue_largest_bytes 200", "client_queue_oldest_seconds 1", "client_queued_bytes 300", "client_queued_clients 2")
		wantLines(t, m, "node_clock", "node_clock_skew_seconds -0.001")
		wantLines(t, m, "node_num", "node_num_channels 3", "node_num_clients 5", "node_num_nodes 2", "node_num_subscriptions 7", "node_num_users 4")
		n.infos[0].NumClients = 6
		wantLines(t, m, "node_num_clients", "node_num_clients 5")
		time.Sleep(time.Second)
		wantLines(t, m, "node_num_clients", "node_num_clients 6")
		time.Sleep(time.Second)
		n.hangs, n.health = true, []gyro.Health{{Part: "node"}, {Part: "x", Err: errors.New("x")}}
		wantLines(t, m, "node_num_clients", "node_num_clients 6")
		wantLines(t, m, "node_canary")
		wantLines(t, m, "node_ready", "node_ready 0")
	})
}

// TestExpiry: what an engine tells of entries that expire has the names of map brokers.
func TestExpiry(t *testing.T) {
	wantLines(t, full(t, metrics.Config{}), "map_broker_cleanup", `map_broker_cleanup_errors_count{broker_name=""} 2`,
		`map_broker_cleanup_lag_seconds{broker_name=""} 3`, `map_broker_cleanup_removed_count{broker_name=""} 5`)
}

// TestEngines: engines have their own metrics exported under their names; what Prometheus does not take
// keeps nobody else's away.
func TestEngines(t *testing.T) {
	m := metrics.New(metrics.Config{Logger: slog.New(slog.DiscardHandler)})
	list := []broker.Metric{
		{Name: "waiting", Help: "Events that wait.", Labels: map[string]string{"part": "x"}, Value: 1.5},
		{Name: "lost_total", Help: "Events that were lost.", Counter: true, Value: 7},
	}
	m.Brokers(map[string]broker.Traits{"b": {Name: "bus", Metrics: func() []broker.Metric { return list }}})
	want := []string{`broker_bus_lost_total{broker_name="b"} 7`, `broker_bus_waiting{broker_name="b",part="x"} 1.5`}
	wantLines(t, m, "broker_", want...)
	list = append(list, broker.Metric{Name: "name\xff", Help: "x"}, broker.Metric{Name: "waiting", Help: "Another help."},
		broker.Metric{Name: "label", Help: "x", Labels: map[string]string{"": "x"}}, broker.Metric{Name: "bytes", Help: "x", Labels: map[string]string{"l": "\xff"}})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range append(want, "go_goroutines ", "process_open_fds ") {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("%s is missing", line)
		}
	}
}

// TestSurveys: times of one operation count together.
func TestSurveys(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for range 3 {
		m.Survey("channels", time.Second)
	}
	m.Survey("mine", time.Second)
	wantLines(t, m, "node_survey_duration_seconds_count", `node_survey_duration_seconds_count{op="channels"} 3`, `node_survey_duration_seconds_count{op="mine"} 1`)
}

// TestLoops: turns of several loops at a time, and scrapes meanwhile, lose nothing.
func TestLoops(t *testing.T) {
	m := metrics.New(metrics.Config{})
	o := m.Observer()
	const loops, turns = 4, 200
	var all sync.WaitGroup
	for range loops {
		all.Go(func() {
			turn := busy()
			for range turns {
				o.Turn(turn)
			}
		})
	}
	for range 10 {
		gather(t, m)
	}
	all.Wait()
	wantLines(t, m, "node_tags", fmt.Sprintf(`node_tags_filter_dropped_publications{channel_namespace=""} %d`, loops*turns*5))
	wantLines(t, m, "transport_messages_sent{", // in the order of the labels
		fmt.Sprintf(`transport_messages_sent{channel_namespace="",frame_type="publish",transport="websocket"} %d`, loops*turns*30),
		fmt.Sprintf(`transport_messages_sent{channel_namespace="",frame_type="push_publication",transport="websocket"} %d`, loops*turns*30),
		fmt.Sprintf(`transport_messages_sent{channel_namespace="",frame_type="subscribe",transport="websocket"} %d`, loops*turns*30))
}
