package app

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
)

func measured(cfg *config.Config) {
	everything(cfg)
	cfg.Prometheus.InstrumentHTTPHandlers = true
}

// metrics scrapes a server.
func (s *testServer) metrics() map[string]*dto.MetricFamily {
	s.t.Helper()
	address := s.app.Addr("internal")
	if address == "" {
		address = s.app.Addr("external")
	}
	status, text := get(s.t, "http://"+address+"/metrics")
	if status != http.StatusOK {
		s.t.Fatalf("%d %s", status, text)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return families
}

// value of a counter, a gauge, or the number of observations; labels as name=value.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		var has []string
		for _, l := range m.Label {
			has = append(has, l.GetName()+"="+l.GetValue())
		}
		if slices.Sort(has); !slices.Equal(has, labels) {
			continue
		}
		switch {
		case m.Summary != nil:
			return float64(m.Summary.GetSampleCount())
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		case m.Counter != nil:
			return m.Counter.GetValue()
		}
		return m.Gauge.GetValue()
	}
	return -1
}

func (s *testServer) wantMetric(want float64, name string, labels ...string) {
	s.t.Helper()
	wait.Success(s.t, fmt.Sprint(name, labels), func() error {
		if got := value(s.metrics(), name, labels...); got != want {
			return fmt.Errorf("it is %g, want %g", got, want)
		}
		return nil
	})
}

// TestMetricsOfNode: sizes follow what clients do.
func TestMetricsOfNode(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everything(cfg)
		open(&cfg.Channel.WithoutNamespace)
		cfg.Client.Insecure, cfg.Client.ConnectionLimit = true, 3
		cfg.Prometheus.Namespace = "centrifugo"
	})
	for i, user := range []string{"a", "a", "b"} {
		c := s.connect(user)
		for n := range i + 1 {
			c.Subscribe(fmt.Sprint("channel-", n), "")
		}
	}
	if c, status := wstest.Handshake(t, s.url("/connection/websocket"), nil); c != nil || status != http.StatusServiceUnavailable {
		t.Errorf("above the limit: %d", status)
	}
	s.api("channels", `{}`)
	for name, want := range map[string]float64{
		"node_num_clients": 3, "node_num_users": 2, "node_num_subscriptions": 6, "node_num_channels": 3, "node_num_nodes": 1,
		"node_client_connection_limit": 1, "node_ready": 1,
	} {
		s.wantMetric(want, "centrifugo_"+name)
	}
	s.wantMetric(1, "centrifugo_node_build", "version=test")
	s.wantMetric(1, "centrifugo_node_survey_duration_seconds", "op=channels")
	s.wantMetric(1, "centrifugo_node_survey_duration_seconds_histogram", "op=channels")
	s.wantMetric(1, "centrifugo_api_command_duration_seconds", "method=channels", "protocol=http")
}

// TestMetricsOfClients: what clients are refused is counted under its code and its limit.
func TestMetricsOfClients(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everything(cfg)
		open(&cfg.Channel.WithoutNamespace)
		cfg.Client.Insecure, cfg.Client.ChannelLimit = true, 1
	})
	c := s.connect("a")
	c.Subscribe("one", "")
	for range 2 {
		c.Outcome(`"subscribe":{"channel":"two"}`)
	}
	s.api("unsubscribe", `{"user":"a","channel":"one"}`)
	s.api("disconnect", `{"user":"a"}`)
	s.wantMetric(2, "gyro_client_num_reply_errors", "channel_namespace=", "code=106", "method=subscribe")
	s.wantMetric(2, "gyro_client_refusals_total", "limit=channels")
	s.wantMetric(1, "gyro_client_num_server_unsubscribes", "channel_namespace=", "code=2000")
	s.wantMetric(1, "gyro_client_num_server_disconnects", "code=3503")
}

var update = flag.Bool("update", false, "write testdata/metrics.txt")

// measurement matches the lines that differ from one conversation to the next: times, requests of this test itself, and figures of
// canaries, which a short conversation may end without.
var measurement = regexp.MustCompile(`(?m)^(# HELP|(go|process|promhttp|# TYPE (go|process|promhttp|gyro_node_canary))_|.*(_bucket|_sum)[{ ]|.*quantile=|gyro_node_canary|gyro_node_memory|gyro_config_last_reload_success_timestamp|.*path="/metrics").*\n`)

// TestMetricsOfConversation compares what a conversation adds up to with testdata/metrics.txt.
func TestMetricsOfConversation(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		measured(cfg)
		open(&cfg.Channel.WithoutNamespace)
		cfg.Channel.WithoutNamespace.Presence, cfg.Prometheus.RecoveredPublicationsHistogram = true, true
		cfg.Channel.WithoutNamespace.HistorySize, cfg.Channel.WithoutNamespace.HistoryTTL = 10, time.Minute
		cfg.Channel.WithoutNamespace.ForceRecovery = true
	})
	c := s.dial(nil)
	c.Connect(s.tokenField(jwt.MapClaims{"sub": "ann"}) + `,"name":"js","version":"1"`)
	position := c.Subscribe("news", "")
	s.api("publish", `{"channel":"news","data":{}}`)
	c.Pub()
	c.Do(`"publish":{"channel":"news","data":{}}`)
	c.Do(`"presence":{"channel":"news"}`)
	c.Outcome(`"rpc":{"method":"x"}`)
	c.Outcome(`"subscribe":{"channel":"nowhere:1"}`)
	c.Do(`"unsubscribe":{"channel":"news"}`)
	c.Subscribe("news", `"recover":true,"epoch":"`+position.Epoch+`"`)
	s.api("channels", `{}`)
	s.api("disconnect", `{"user":"ann"}`)
	c.Disconnected()
	want, err := os.ReadFile("testdata/metrics.txt")
	if err != nil && !*update {
		t.Fatal(err)
	}
	var diff string
	for end := time.Now().Add(wait.Limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, text := get(t, s.url("/metrics"))
		text = measurement.ReplaceAllString(text, "")
		if diff = cmp.Diff(string(want), text); diff == "" {
			return
		}
		if *update {
			if err := os.WriteFile("testdata/metrics.txt", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !*update {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMetricsOfNamespaces: configured namespaces are labels, what clients make up is not.
func TestMetricsOfNamespaces(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		measured(cfg)
		open(&cfg.Channel.WithoutNamespace)
		cfg.Client.Insecure = true
		cfg.Channel.Namespaces = []config.Namespace{{Name: "chat", ChannelOptions: cfg.Channel.WithoutNamespace}}
		cfg.Prometheus.ChannelNamespaceResolution, cfg.Prometheus.AdditionalClientNames = true, []string{"js"}
	})
	c := s.dial(nil)
	c.Connect(`"name":"js"`)
	c.Subscribe("chat:1", "")
	c.Subscribe("news", "")
	c.Outcome(`"subscribe":{"channel":"nowhere:1"}`)
	s.api("publish", `{"channel":"chat:1","data":{}}`)
	c.Pub()
	s.wantMetric(1, "gyro_client_connections_inflight", "accept_protocol=", "client_name=js", "client_version=unversioned", "transport=websocket")
	s.wantMetric(1, "gyro_client_subscriptions_inflight", "channel_namespace=chat", "client_name=js")
	s.wantMetric(1, "gyro_client_subscriptions_inflight", "channel_namespace=", "client_name=js")
	s.wantMetric(1, "gyro_client_num_reply_errors", "channel_namespace=", "code=102", "method=subscribe")
	s.wantMetric(1, "gyro_node_publish_to_write_seconds", "channel_namespace=chat")
	s.wantMetric(1, "gyro_node_messages_sent_count", "channel_namespace=chat", "type=publication")
	s.wantMetric(0, "gyro_client_queued_clients")
}

// TestMetricsOfLabels: tokens give labels to clients, and the versions of HTTP tell connections apart.
func TestMetricsOfLabels(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		overHTTP3(cfg)
		open(&cfg.Channel.WithoutNamespace)
		cfg.HTTPStream.Enabled = true
		cfg.Prometheus.ExposeTransportAcceptProtocol, cfg.Prometheus.ClientLabels, cfg.Prometheus.ClientLabelsLimit = true, []string{"tier"}, 1
		cfg.Client.Token.HMACSecretKey = tokenSecret
	})
	tcp := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer tcp.CloseIdleConnections()
	for i, c := range []*http.Client{old, tcp, client3(t)} {
		claims := jwt.MapClaims{"sub": "ann", "labels": map[string]string{"tier": []string{"free", "free", "paid"}[i]}, "channels": []string{"news"}}
		body := `{"id":1,"connect":{` + s.tokenField(claims) + `}}`
		res, err := c.Post("https://"+s.app.Addr("external")+"/connection/http_stream", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.Contains(line, `"news"`) || res.ProtoMajor != i+1 {
			t.Fatalf("over %s: %s %v", res.Proto, line, err)
		}
	}
	for http, tier := range map[string]string{"h1": "free", "h2": "free", "h3": "other"} {
		s.wantMetric(1, "gyro_client_connections_inflight", "accept_protocol="+http, "app_tier="+tier, "client_name=unnamed", "client_version=unversioned", "transport=http_stream")
	}
	s.wantMetric(2, "gyro_client_subscriptions_inflight", "app_tier=free", "channel_namespace=", "client_name=unnamed")
	s.awaitLog("labels of clients have too many values")
}

// TestMetricsOfAPI: however a request comes, it counts once.
func TestMetricsOfAPI(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"info", "debug"} { // which makes no difference
		s := startServerAt(t, level, measured)
		for _, r := range []struct{ path, body string }{
			{"/api/publish", `{"channel":"a","data":1}`},
			{"/api/publish", `{"channel":"no:a","data":1}`},
			{"/api/publish", `{"channel":1}`},
			{"/api/info", `{}`},
			{"/api/rpc", `{"method":"made-up"}`},
			{"/api/broadcast", `{"channels":["a","no:a","no:b"],"data":1}`},
			{"/api/batch", `{"commands":[{"publish":{"channel":"a","data":1}},{"publish":{"channel":"no:a","data":1}},{"presence":{"channel":"a"}}]}`},
			{"/api", `{"method":"publish","params":{"channel":"a","data":1}}{"method":"history","params":{"channel":"a"}}{"method":"rpc","params":1}`},
		} {
			if status, answer := s.post(r.path, r.body); status != http.StatusOK && !strings.Contains(r.body, ":1}") {
				t.Fatalf("%s: %d %s", r.path, status, answer)
			}
		}
		for method, want := range map[string]float64{"publish": 3, "info": 1, "rpc": 1, "broadcast": 1, "batch": 1, "history": 1, "presence": -1} {
			s.wantMetric(want, "gyro_api_command_duration_seconds", "method="+method, "protocol=http")
			s.wantMetric(want, "gyro_api_command_duration_seconds_histogram", "method="+method, "protocol=http")
		}
		s.wantMetric(-1, "gyro_api_rpc_duration_seconds", "method=made-up", "protocol=http")
		var got []string
		for _, m := range s.metrics()["gyro_api_command_errors_total"].GetMetric() {
			got = append(got, fmt.Sprint(m.Label[1].GetValue(), " ", m.Label[0].GetValue(), " ", m.Counter.GetValue()))
		}
		slices.Sort(got)
		want := []string{"batch 102 1", "batch 108 1", "broadcast_publish 102 2", "history 108 1", "publish 102 1", "publish unmarshal 1", "rpc 104 1", "rpc unmarshal 1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", level, diff)
		}
		s.wantMetric(2, "gyro_node_incoming_http_requests_total", "method=POST", "path=/api/publish", "status=200")
		s.wantMetric(1, "gyro_node_incoming_http_requests_total", "method=POST", "path=/api/publish", "status=400")
		s.wantMetric(1, "gyro_node_incoming_http_requests_total", "method=POST", "path=/api/broadcast", "status=200")
		s.wantMetric(1, "gyro_node_incoming_http_requests_total", "method=POST", "path=/api", "status=200")
	}
}

// TestMetricsOfHandshakes: whoever reads a handshake, it counts once.
func TestMetricsOfHandshakes(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) {
		measured(cfg)
		cfg.Client.ConnectionLimit, cfg.Client.Insecure = 1, true
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
	}
	for _, level := range []string{"info", "debug"} {
		for _, goroutines := range []bool{false, true} {
			s := startServerAt(t, level, func(cfg *config.Config) { edit(cfg); cfg.WebSocket.GoroutineDriver = goroutines })
			onlyClient(t, s.url("/connection/websocket"), http.Header{}, "")
			for _, status := range []string{"101", "403", "503"} {
				s.wantMetric(1, "gyro_node_incoming_http_requests_total", "method=GET", "path=/connection/websocket", "status="+status)
			}
		}
	}
}

// TestLabelsAreBounded: no label has a value that a client or a backend made up.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		measured(cfg)
		open(&cfg.Channel.WithoutNamespace)
		cfg.Client.Insecure, cfg.RPC.Ping.Enabled = true, true
	})
	const made = "madeup"
	for i := range 20 {
		name := fmt.Sprint(made, i)
		for _, path := range []string{"/" + name, "/api/" + name, "/debug/pprof/" + name, "/connection/websocket?" + name, "/health?" + name} {
			req := must(http.NewRequest(strings.ToUpper(name), s.url(path), nil))
			req.Header.Set("X-API-Key", apiKey)
			req.Header.Set("User-Agent", name)
			do(t, http.DefaultClient, req)
		}
		for method, body := range map[string]string{
			"publish": `{"channel":"%s","data":"%s"}`, "history": `{"channel":"%s"}`, "rpc": `{"method":"%s"}`, "batch": `{"commands":[{"%s":{}}]}`,
			"info": `{"%s":1}`, "disconnect": `{"user":"%s"}`, "channels": `{"pattern":"%s"}`,
		} {
			s.post("/api/"+method, strings.ReplaceAll(body, "%s", name))
		}
		s.post("/api", `{"method":"`+name+`"}`)
		c := s.dial(nil)
		c.Connect(`"name":"` + name + `","version":"` + name + `"`)
		c.Subscribe(name, "")
		c.Outcome(`"rpc":{"method":"` + name + `"}`)
	}
	known := []string{
		"", "channels", "http", "other", "104", "200", "400", "404", "405", "101", "test", "unmarshal", "GET", "POST", "websocket", "unregistered",
		"add_client", "remove_client", "add_subscription", "remove_subscription", "yes", "no",
	}
	for l := range observe.NumLimits {
		known = append(known, l.String())
	}
	for _, m := range api.Methods() {
		known = append(known, m.String())
	}
	for m := range observe.NumMessages {
		known = append(known, m.String())
	}
	for a := range observe.NumActions {
		known = append(known, a.String())
	}
	for e := range observe.NumEvents {
		known = append(known, e.String())
	}
	for name, f := range s.metrics() {
		if !strings.HasPrefix(name, "gyro_") {
			continue
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				v := l.GetValue()
				known := slices.Contains(known, v) || strings.HasPrefix(v, "/") || l.GetName() == "error" && len(v) == 3 ||
					l.GetName() == "code" && len(v) == 4 && v[0] == '3' // codes of disconnects of the node itself
				if !known || strings.Contains(strings.ToLower(v), made) {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), v)
				}
			}
		}
	}
	s.wantMetric(20, "gyro_node_incoming_http_requests_total", "method=other", "path=/debug/pprof/", "status=404")
	s.wantMetric(20, "gyro_node_incoming_http_requests_total", "method=other", "path=/health", "status=200")
	s.wantMetric(40, "gyro_node_incoming_http_requests_total", "method=other", "path=other", "status=404")
}

// TestMetricsOfTwo: servers in one process do not share anything.
func TestMetricsOfTwo(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, measured), startServer(t, measured)
	a.api("info", `{}`)
	a.wantMetric(1, "gyro_api_command_duration_seconds", "method=info", "protocol=http")
	b.wantMetric(-1, "gyro_api_command_duration_seconds", "method=info", "protocol=http")
}
