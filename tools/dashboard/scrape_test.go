package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/programtest"
)

// elsewhere are the beginnings of the names of what the server of the test does not have, and why. The labels of these are those
// of docs/metrics.md.
var elsewhere = map[string]string{
	"gyro_broker_nats_":                     "an engine over NATS",
	"gyro_broker_postgres_":                 "an engine over PostgreSQL",
	"gyro_broker_redis_map_cache_":          "the cache of maps",
	"gyro_client_ping_pong_":                "takes 25 s",
	"gyro_map_broker_":                      "maps",
	"gyro_proxy_streams":                    "a backend over gRPC",
	"gyro_shared_poll_dropped_notify_count": "a client that goes",
	"gyro_shared_poll_handler_":             "clients with signed keys",
	"gyro_shared_poll_items_count":          "likewise",
	"gyro_shared_poll_cycle_":               "likewise",
	"gyro_shared_poll_sem_":                 "likewise",
	"gyro_shared_poll_proxy_":               "likewise",
	"gyro_shared_poll_publish_":             "likewise",
	"gyro_shared_poll_notify_":              "likewise",
	"gyro_shared_poll_notification_":        "likewise",
	"gyro_transport_outgoing_close_count":   "WebSocket",
	"gyro_node_tags_filter_":                "a subscription with a filter",
	"gyro_tls_":                             "TLS",
	"up":                                    "comes from Prometheus",
}

// TestScrape holds every query against the scrape of a running server whose clients and backends do what there is to do.
func TestScrape(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the server")
	}
	s := startServer(t, redistest.Standalone(t, redistest.Options{}))
	s.play()
	scraped, docs := s.scrape(), documented(t)
	missing := make(map[string]bool)
	for name := range docs {
		if _, ok := scraped[name]; ok {
			continue
		}
		for prefix := range elsewhere {
			if strings.HasPrefix(name, prefix) {
				missing[prefix], scraped[name] = true, docs[name]
			}
		}
	}
	for prefix := range elsewhere {
		if !missing[prefix] {
			t.Errorf("the scrape has all of %s*, so it need not be an exception", prefix)
		}
	}
	for _, q := range queries(t) {
		if _, err := scraped.check(q.Expr); err != nil {
			t.Errorf("%s: %v", q.Expr, err)
		}
	}
	before := s.text()
	s.playOn()
	after := before
	wait.Until(t, "what loops have counted, with the next second", func() bool {
		after = s.text()
		return !slices.ContainsFunc(loops, func(name string) bool { return slices.Equal(lines(before, name), lines(after, name)) })
	})
	evaluate(t, before, after, func(name string) bool {
		for prefix := range elsewhere {
			if strings.HasPrefix(name, prefix) && name != "up" {
				return false
			}
		}
		return true
	})
	rest(t, s.text)
}

// loops are series that loops count, which a scrape shows with the next second.
var loops = []string{
	"gyro_client_recovered_publications_count", "gyro_node_pub_sub_lag_seconds_count", "gyro_node_publish_to_write_seconds_count", `gyro_node_broadcast_duration_seconds_count{channel_namespace="",type="publication"}`,
}

// lines returns the lines of a scrape that begin so.
func lines(scrape, prefix string) (found []string) {
	for line := range strings.Lines(scrape) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

// evaluate has the engine of Prometheus answer every query on two scrapes of a server. had tells whether the server has a
// metric.
func evaluate(t *testing.T, before, after string, had func(name string) bool) {
	t.Helper()
	busy := newStore()
	busy.scraped(t, target{Instance: "a"}, before, 0)
	busy.scraped(t, target{Instance: "a"}, after, step)
	all := documented(t)
	for _, q := range panelQueries(t) {
		names, err := all.check(q.Expr)
		if err != nil || slices.ContainsFunc(names, func(name string) bool { return !had(name) }) {
			continue
		}
		result := busy.at(t, q.Expr, step)
		if !slices.ContainsFunc(result, func(s promql.Series) bool { return !math.IsNaN(s.Floats[0].F) }) {
			t.Errorf("%s has no result: %v", q.Expr, result)
		}
		for _, series := range result {
			for _, m := range label.FindAllStringSubmatch(q.Legend, -1) {
				if !series.Metric.Has(m[1]) && !slices.Contains(maybeEmpty, m[1]) {
					t.Errorf("%s: the legend names %s, and there is %s", q.Expr, m[1], series.Metric)
				}
			}
		}
	}
}

// rest looks for a scrape of a server that has nothing to do, of which no rule fires if it goes on as it is. The canaries of
// the first one may have waited for a busy machine.
func rest(t *testing.T, scrape func() string) {
	t.Helper()
	var firing []string
	if !wait.Within(wait.Limit, func() bool {
		text, idle := scrape(), newStore()
		for at := time.Duration(0); at <= 30*time.Minute; at += step {
			idle.scraped(t, target{Instance: "a"}, text, at)
		}
		firing = nil
		for _, r := range theRules(t) {
			if idle.fires(t, r, 30*time.Minute) {
				firing = append(firing, r.Alert)
			}
		}
		return len(firing) == 0
	}) {
		t.Errorf("%q fire for a server that has nothing to do", firing)
	}
}

// maybeEmpty are labels whose empty value means something.
var maybeEmpty = []string{"channel_namespace", "broker_name"}

type server struct {
	t     *testing.T
	url   string
	redis *redistest.Server
}

// start runs a program until the test ends, and waits until it listens on a port.
func start(t *testing.T, port, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	wait.Until(t, name, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// config is a part of a configuration or of a request.
type config = map[string]any

func startServer(t *testing.T, redis *redistest.Server) *server {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/fails") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `{"result":{}}`)
	}))
	t.Cleanup(backend.Close)
	dir := t.TempDir()
	number, err := porttest.Free()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(number)
	options := config{
		"presence": true, "join_leave": true, "force_push_join_leave": true, "history_size": 10, "history_ttl": "1m", "force_recovery": true,
		"allow_subscribe_for_client": true, "allow_publish_for_client": true, "allow_history_for_client": true, "allow_presence_for_client": true,
	}
	file, err := json.Marshal(config{
		"http_server": config{"address": "127.0.0.1", "port": port},
		"engine":      config{"type": "redis", "redis": config{"address": []string{"redis://" + redis.Addr()}}},
		"client": config{
			"insecure": true, "channel_limit": 2, "connection_limit": 2,
		},
		"http_stream": config{"enabled": true},
		"http_api":    config{"insecure": true},
		"user_status": config{"enabled": true},
		"prometheus": config{
			"enabled": true, "instrument_http_handlers": true, "recovered_publications_histogram": true, "channel_namespace_resolution": true,
		},
		"channel": config{"without_namespace": options},
		"rpc": config{
			"proxy": config{"endpoint": backend.URL + "/rpc"}, "without_namespace": config{"proxy_enabled": true},
			"namespaces": []config{{"name": "failing", "proxy_enabled": true, "proxy_name": "fails"}},
		},
		"proxies": []config{{"name": "fails", "endpoint": backend.URL + "/fails"}},
		"consumers": []config{{
			"name": "events", "enabled": true, "type": "redis_stream",
			"redis_stream": config{"address": "redis://" + redis.Addr(), "streams": []string{"events"}, "consumer_group": "gyro", "visibility_timeout": "1s"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "config.json")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := programtest.Server(dir)
	if err != nil {
		t.Fatal(err)
	}
	start(t, port, program, "-c", name)
	return &server{t, "http://127.0.0.1:" + port, redis}
}

func (s *server) post(path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return http.Post(s.url+path, "application/json", strings.NewReader(string(data)))
}

func (s *server) api(method string, params config) {
	s.t.Helper()
	res, err := s.post("/api/"+method, params)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// client has a stream for what it gets, and sends its commands in requests.
type client struct {
	s       *server
	lines   *bufio.Scanner
	session struct{ Session, Node string }
	last    int
}

// reply is what is read of what a client gets.
type reply struct {
	ID        int
	Connect   struct{ Session, Node string }
	Subscribe struct {
		Epoch  string
		Offset uint64
	}
	Push config
}

func (s *server) connect(ctx context.Context) *client {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/connection/http_stream", strings.NewReader(`{"id":1,"connect":{"name":"test"}}`))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	c := &client{s: s, lines: bufio.NewScanner(res.Body), last: 1}
	first := c.read(func(r *reply) bool { return r.ID == 1 })
	c.session.Session, c.session.Node = first.Connect.Session, first.Connect.Node
	return c
}

// read returns the first message for which is is true.
func (c *client) read(is func(*reply) bool) (r reply) {
	c.s.t.Helper()
	for c.lines.Scan() {
		r = reply{}
		if err := json.Unmarshal(c.lines.Bytes(), &r); err != nil {
			c.s.t.Fatalf("%s: %v", c.lines.Bytes(), err)
		}
		if is(&r) {
			return r
		}
	}
	c.s.t.Fatal("the stream has ended", c.lines.Err())
	return r
}

// do sends a command and returns its reply.
func (c *client) do(method string, params config) reply {
	c.s.t.Helper()
	c.last++
	command, err := json.Marshal(config{"id": c.last, method: params})
	if err != nil {
		c.s.t.Fatal(err)
	}
	res, err := c.s.post("/emulation", config{"session": c.session.Session, "node": c.session.Node, "data": string(command)})
	if err != nil {
		c.s.t.Fatal(err)
	}
	res.Body.Close()
	return c.read(func(r *reply) bool { return r.ID == c.last })
}

// hear has something published, and returns when the client has got a publication: nothing is delivered, and counted, to a client that
// has left the channel before it comes.
func (c *client) hear() {
	c.s.t.Helper()
	c.s.api("publish", config{"channel": "news", "data": 1})
	c.read(func(r *reply) bool { return r.Push["pub"] != nil })
}

// play has clients and backends do what there is to do.
func (s *server) play() {
	t := s.t
	c := s.connect(t.Context())
	position := c.do("subscribe", config{"channel": "news"}).Subscribe
	c.do("publish", config{"channel": "news", "data": 1})
	c.hear()
	c.do("history", config{"channel": "news"})
	c.do("presence", config{"channel": "news"})
	c.do("rpc", config{"method": "x"})
	c.do("rpc", config{"method": "failing:x"})
	c.do("subscribe", config{"channel": "unknown:1"})
	c.do("subscribe", config{"channel": "second"})
	c.do("subscribe", config{"channel": "third"}) // more than channel_limit
	c.do("unsubscribe", config{"channel": "news"})
	s.api("publish", config{"channel": "news", "data": 2, "idempotency_key": "once"})
	s.api("publish", config{"channel": "news", "data": 2, "idempotency_key": "once"})
	c.do("subscribe", config{"channel": "news", "recover": true, "epoch": position.Epoch, "offset": position.Offset})
	s.api("unsubscribe", config{"channel": "second"})
	s.api("channels", config{})
	s.api("update_user_status", config{"users": []string{"ann"}})
	s.api("rpc", config{"method": "reload"})
	s.api("publish", config{"channel": "unknown:1", "data": 1})
	for range 3 { // one more than the limit
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/connection/http_stream", strings.NewReader(`{"id":1,"connect":{}}`)); err == nil {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
		}
	}
	s.redis.Do("XADD", "events", "*", "method", "publish", "payload", "{")
	s.api("disconnect", config{"user": ""})
	// What loops and engines have counted is there with the next second.
	wait.Until(t, "the canary of Redis", func() bool { return s.scrape()["gyro_broker_canary_delay_seconds"] != nil })
	wait.Until(t, "the canary of the node", func() bool { return slices.Contains(s.names(), "gyro_node_canary_delay_seconds") })
	wait.Until(t, "the lag of the consumer", func() bool { return s.scrape()["gyro_consumers_lag"] != nil })
	wait.Until(t, "the disconnect", func() bool { return s.scrape()["gyro_client_num_server_disconnects"] != nil })
}

func (s *server) names() (names []string) {
	for name := range s.scrape() {
		names = append(names, name)
	}
	return names
}

// playOn does some of it once more, so that there is something in the time between two scrapes.
func (s *server) playOn() {
	for range 3 {
		s.api("publish", config{"channel": "news", "data": 3})
		s.api("publish", config{"channel": "unknown:1", "data": 1})
		s.api("channels", config{})
		s.api("rpc", config{"method": "reload"})
	}
	c := s.connect(s.t.Context())
	position := c.do("subscribe", config{"channel": "news"}).Subscribe
	c.do("rpc", config{"method": "x"})
	c.do("publish", config{"channel": "news", "data": 1})
	c.hear()
	c.do("unsubscribe", config{"channel": "news"})
	c.do("subscribe", config{"channel": "news", "recover": true, "epoch": position.Epoch, "offset": position.Offset})
}

// text is a scrape of the server.
func (s *server) text() string {
	s.t.Helper()
	res, err := http.Get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// scrape returns the series of the server.
func (s *server) scrape() series {
	s.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	list, err := parser.TextToMetricFamilies(strings.NewReader(s.text()))
	if err != nil {
		s.t.Fatal(err)
	}
	all := make(series)
	for name, f := range list {
		labels := []string{}
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			all[name+"_bucket"] = append(slices.Clone(labels), "le")
			all[name+"_sum"], all[name+"_count"] = labels, labels
		default:
			all[name] = labels
		}
	}
	return all
}
