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
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/metrics"
)

// family is what dashboards rely on.
type family struct {
	name, kind, labels, buckets string
}

const (
	surveyBuckets  = "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10"
	defaultBuckets = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10"
)

// families are those of docs/metrics.md.
var families = []family{
	{"api_command_duration_seconds", "summary", "method protocol", "0.5 0.99 0.999"},
	{"api_command_duration_seconds_histogram", "histogram", "method protocol", defaultBuckets},
	{"api_command_errors_total", "counter", "error method protocol", ""},
	{"broker_canary_delay_seconds", "gauge", "broker_name shard", ""},
	{"broker_delivers", "gauge", "broker_name shard", ""},
	{"broker_nats_buffered_messages", "gauge", "broker_name", ""},
	{"broker_nats_dropped_messages_total", "counter", "broker_name", ""},
	{"broker_reconnects_total", "counter", "broker_name shard", ""},
	{"broker_redis_pub_sub_buffered_messages", "gauge", "broker_name channel_type pub_sub_processor", ""},
	{"broker_redis_pub_sub_dropped_messages", "counter", "broker_name channel_type", ""},
	{"broker_redis_pub_sub_errors", "counter", "broker_name error", ""},
	{"client_num_reply_errors", "counter", "code method", ""},
	{"client_num_server_disconnects", "counter", "code", ""},
	{"client_num_server_unsubscribes", "counter", "code", ""},
	{"client_refusals_total", "counter", "limit", ""},
	{"node_build", "gauge", "version", ""},
	{"node_canary_delay_seconds", "gauge", "", ""},
	{"node_client_connection_limit", "counter", "", ""},
	{"node_incoming_http_requests_total", "counter", "method path status", ""},
	{"node_num_channels", "gauge", "", ""},
	{"node_num_clients", "gauge", "", ""},
	{"node_num_nodes", "gauge", "", ""},
	{"node_num_subscriptions", "gauge", "", ""},
	{"node_num_users", "gauge", "", ""},
	{"node_panics_total", "counter", "", ""},
	{"node_ready", "gauge", "", ""},
	{"node_survey_duration_seconds", "summary", "op", "0.5 0.99 0.999"},
	{"node_survey_duration_seconds_histogram", "histogram", "op", surveyBuckets},
}

// lintedNames have names that promlint would give otherwise, and the specification does
// not.
var lintedNames = []string{
	"broker_redis_pub_sub_dropped_messages", "broker_redis_pub_sub_errors", "node_client_connection_limit",
	"client_num_reply_errors", "client_num_server_disconnects", "client_num_server_unsubscribes",
	"api_command_duration_seconds_histogram", "node_survey_duration_seconds_histogram",
}

// fakeNode has a size and a health.
type fakeNode struct {
	api.Node
	infos  []gyro.NodeInfo
	health []gyro.Health
	asked  int
	hangs  bool
}

func (n *fakeNode) Info(ctx context.Context) ([]gyro.NodeInfo, error) {
	n.asked++
	if n.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return n.infos, nil
}

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
	return map[string]broker.Traits{
		"": e.Broker().Describe(), "fast": n.Describe(), "memory": memory.New(memory.Config{}).Describe(),
		"sharded": {Name: "strange", Health: func() []broker.Health {
			return []broker.Health{{Delay: time.Millisecond, Reconnects: 3}, {Delay: time.Second, Err: errors.New("x")}}
		}},
	}
}

// full is a registry that exports everything, with something to export.
func full(t *testing.T, c metrics.Config) *metrics.Registry {
	r := newRegistry(c)
	n := newNode()
	r.Node(n, "v1.2.3", func() uint64 { return 6 })
	r.Brokers(brokers(t))
	if _, err := r.Surveys(n).Channels(t.Context(), ""); err != nil {
		t.Error(err)
	}
	r.Requests().Counter("/api/publish")(http.MethodPost, http.StatusOK)
	turn := &observe.Turn{
		Commands: []observe.Command{{Method: observe.MessageRPC}, {Method: observe.MessageRPC, Code: 108}},
		Disconnects: []observe.Disconnect{
			{Count: 1}, {Disconnect: protocol.DisconnectConnectionClosed, Count: 2}, {Disconnect: protocol.DisconnectSlow, Count: 3},
		},
		Unsubscribes: []observe.Unsubscribe{{Code: 2500, Count: 4}},
	}
	turn.Refusals[observe.LimitQueue] = 3
	r.Clients().Turn(turn)
	o := r.API("http")
	o.Executed(api.MethodPublish, 30*time.Millisecond, nil, nil)
	o.Failed(api.MethodPublish, api.StageDecode)
	return r
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

// describe tells what a family is like, but for its name.
func describe(f *dto.MetricFamily) family {
	m := f.Metric[0]
	var labels, buckets []string
	for _, l := range m.Label {
		labels = append(labels, l.GetName())
	}
	for _, b := range m.GetHistogram().GetBucket() {
		if s := fmt.Sprint(b.GetUpperBound()); s != "+Inf" {
			buckets = append(buckets, s)
		}
	}
	for _, q := range m.GetSummary().GetQuantile() {
		buckets = append(buckets, fmt.Sprint(q.GetQuantile()))
	}
	slices.Sort(labels)
	return family{"", strings.ToLower(f.GetType().String()), strings.Join(labels, " "), strings.Join(buckets, " ")}
}

// TestFamilies compares names, types, labels and buckets with the specification.
func TestFamilies(t *testing.T) {
	for _, namespace := range []string{"gyro", "centrifugo"} {
		text := scrape(t, full(t, metrics.Config{Namespace: namespace}), "").Body.String()
		got := map[string]family{}
		runtime := 0
		for name, f := range parse(t, text) {
			if short, ours := strings.CutPrefix(name, namespace+"_"); ours {
				d := describe(f)
				d.name = short
				got[short] = d
			} else if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				runtime++
			} else {
				t.Errorf("%s is not ours", name)
			}
		}
		want := map[string]family{}
		for _, f := range families {
			want[f.name] = f
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(family{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", namespace, diff)
		}
		if runtime < 30 {
			t.Errorf("%d metrics of runtime and process", runtime)
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems {
			if !slices.Contains(lintedNames, strings.TrimPrefix(p.Metric, namespace+"_")) {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}

// TestCodes: codes that applications make up are counted together, and ends that the
// server did not want are not counted.
func TestCodes(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	turn := &observe.Turn{Unsubscribes: []observe.Unsubscribe{{Code: 2501, Count: 1}, {Code: 2600, Count: 1}}}
	for _, code := range []uint32{0, 100, 113, 400, 1999} {
		turn.Commands = append(turn.Commands, observe.Command{Method: observe.MessageRPC, Code: code})
	}
	for _, code := range []uint32{0, 3000, 3008, 3508, 4000, 4999} {
		turn.Disconnects = append(turn.Disconnects, observe.Disconnect{Disconnect: protocol.Disconnect{Code: code}, Count: 3})
	}
	r.Clients().Turn(turn)
	var got []string
	for name, f := range parse(t, scrape(t, r, "").Body.String()) {
		for _, m := range f.Metric {
			if short, ours := strings.CutPrefix(name, "gyro_client_"); ours {
				got = append(got, fmt.Sprint(short, " ", m.Label[0].GetValue(), " ", m.Counter.GetValue()))
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"num_reply_errors 100 1", "num_reply_errors 113 1", "num_reply_errors other 2",
		"num_server_disconnects 3008 3", "num_server_disconnects 3508 3", "num_server_disconnects other 6",
		"num_server_unsubscribes 2501 1", "num_server_unsubscribes other 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDocumentation: docs/metrics.md lists what there is, and nothing else.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(data)) {
		c := strings.Split(line, "|")
		if len(c) != 6 || !strings.HasPrefix(c[1], " `") {
			continue
		}
		labels := strings.Split(strings.ReplaceAll(strings.TrimSpace(c[3]), "`", ""), ", ")
		slices.Sort(labels)
		row := strings.Trim(c[1], " `") + " " + strings.TrimSpace(c[2]) + " " + strings.Join(labels, " ")
		for _, b := range []string{surveyBuckets, defaultBuckets} {
			if strings.Contains(c[4], "buckets "+strings.ReplaceAll(b, "0.", ".")+" ") {
				row += " " + b
			}
		}
		got = append(got, row)
	}
	for _, f := range families {
		row := f.name + " " + f.kind + " " + f.labels
		if f.kind == "histogram" {
			row += " " + f.buckets
		}
		want = append(want, row)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
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
		`broker_delivers{broker_name="sharded",shard="0"} 1`, `broker_delivers{broker_name="sharded",shard="1"} 0`)
	wantValues(t, r, "broker_reconnects", `broker_reconnects_total{broker_name="",shard="0"} 0`, `broker_reconnects_total{broker_name="fast",shard="0"} 0`,
		`broker_reconnects_total{broker_name="sharded",shard="0"} 3`, `broker_reconnects_total{broker_name="sharded",shard="1"} 0`)
	wantValues(t, r, "broker_redis_pub_sub_dropped", `broker_redis_pub_sub_dropped_messages{broker_name="",channel_type="client"} 0`,
		`broker_redis_pub_sub_dropped_messages{broker_name="",channel_type="control"} 0`)
	wantValues(t, r, "broker_nats", `broker_nats_buffered_messages{broker_name="fast"} 0`, `broker_nats_dropped_messages_total{broker_name="fast"} 0`)
}

// TestForeignBroker: an engine that the server does not know has its metrics exported under
// its name; what Prometheus does not take keeps nobody else's away.
func TestForeignBroker(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	list := []broker.Metric{
		{Name: "waiting", Help: "Events that wait.", Labels: map[string]string{"part": "x"}, Value: 1.5},
		{Name: "lost_total", Help: "Events that were lost.", Counter: true, Value: 7},
	}
	r.Brokers(map[string]broker.Traits{"b": {Name: "bus", Metrics: func() []broker.Metric { return list }}})
	want := []string{`broker_bus_lost_total{broker_name="b"} 7`, `broker_bus_waiting{broker_name="b",part="x"} 1.5`}
	wantValues(t, r, "broker_", want...)
	list = append(list, broker.Metric{Name: "name\xff", Help: "x"}, broker.Metric{Name: "waiting", Help: "Another help."},
		broker.Metric{Name: "label", Help: "x", Labels: map[string]string{"": "x"}}, broker.Metric{Name: "bytes", Help: "x", Labels: map[string]string{"l": "\xff"}})
	wantValues(t, r, "broker_bus_", want...)
}

// TestNode: numbers are at most a second old, and a loop that hangs does not keep a
// scrape from the rest.
func TestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRegistry(metrics.Config{Namespace: "gyro"}), newNode()
		n.hangs = true
		r.Node(n, "v\xff", func() uint64 { return 6 })
		rest := []string{`node_build{version="v?"} 1`, "node_canary_delay_seconds 0.002", "node_client_connection_limit 6", "node_panics_total 8"}
		wantValues(t, r, "node_", append(rest, "node_ready 1")...)
		n.hangs = false
		sizes := []string{"node_num_channels 3", "node_num_clients 5", "node_num_nodes 2", "node_num_subscriptions 7", "node_num_users 4"}
		wantValues(t, r, "node_num", sizes...)
		n.infos[0].NumClients = 6
		wantValues(t, r, "node_num_clients", "node_num_clients 5")
		time.Sleep(time.Second)
		wantValues(t, r, "node_num_clients", "node_num_clients 6")
		time.Sleep(time.Second)
		n.hangs, n.health = true, []gyro.Health{{Part: "node"}, {Part: "x", Err: errors.New("x")}}
		wantValues(t, r, "node_num_clients", "node_num_clients 6")
		wantValues(t, r, "node_canary")
		wantValues(t, r, "node_ready", "node_ready 0")
	})
}

func TestAPIErrors(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
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

// TestNativeHistograms: there are no classic buckets then, and no summaries.
func TestNativeHistograms(t *testing.T) {
	r := full(t, metrics.Config{Namespace: "gyro", NativeHistograms: true})
	w := scrape(t, r, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	d := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	var histograms []string
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); err != nil {
			break
		}
		if !strings.HasPrefix(f.GetName(), "gyro_") {
			continue
		}
		if f.GetType() == dto.MetricType_SUMMARY {
			t.Errorf("%s is a summary", f.GetName())
		}
		if h := f.Metric[0].Histogram; h != nil {
			histograms = append(histograms, f.GetName())
			if len(h.Bucket) > 0 || h.GetSchema() != 3 || len(h.PositiveSpan)+len(h.NegativeSpan) == 0 && h.GetZeroCount() == 0 {
				t.Errorf("%s: %v", f.GetName(), h)
			}
		}
	}
	if diff := cmp.Diff([]string{"gyro_api_command_duration_seconds_histogram", "gyro_node_survey_duration_seconds_histogram"}, histograms); diff != "" {
		t.Errorf("histograms (-want +got):\n%s", diff)
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
