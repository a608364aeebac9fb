package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	sdk "github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/tools/internal/alertrules"
	"github.com/gyrohq/gyro/tools/internal/scrapes"
)

// cluster is two nodes on a Redis, with a second Redis for some channels and for the status of users.
type cluster struct {
	*testing.T
	redis, aside *redistest.Server
	backend      string
	program, dir string
	nodes        []*member
	shown        look // of a fault that may be over a moment later
}

// member is a node, which runs or does not.
type member struct {
	target
	port, grpc int
	config     string // file
	cmd        *exec.Cmd
}

const (
	secret   = "a-secret-of-tokens-that-is-long-enough"
	previous = "the-secret-of-tokens-that-was-there-before"
	slow     = 1200 * time.Millisecond // of a backend, and of a batch
)

func newCluster(t *testing.T, program string) *cluster {
	c := &cluster{T: t, program: program, redis: redistest.Standalone(t, redistest.Options{}), aside: redistest.Standalone(t, redistest.Options{}), dir: t.TempDir()}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case "/slow":
			time.Sleep(slow)
		}
		fmt.Fprint(w, `{"result":{}}`)
	}))
	t.Cleanup(backend.Close)
	c.backend = backend.URL
	for _, name := range []string{"a", "b"} {
		c.nodes = append(c.nodes, c.start(target{Cluster: "production", Instance: name}, "gyro", nil))
	}
	wait.Until(t, "two nodes that know each other", func() bool {
		return !slices.ContainsFunc(c.nodes, func(m *member) bool { return !strings.Contains(m.scrape(), "\ngyro_node_num_nodes 2\n") })
	})
	return c
}

// start starts a node, whose prefix in Redis is that of its cluster, with further sections of its configuration.
func (c *cluster) start(of target, prefix string, more config) *member {
	c.Helper()
	m := &member{target: of, config: filepath.Join(c.dir, of.Instance+".json")}
	for _, port := range []*int{&m.port, &m.grpc} {
		var err error
		if *port, err = porttest.Free(); err != nil {
			c.Fatal(err)
		}
	}
	c.certify(m, time.Now().Add(90*24*time.Hour), 91*24*time.Hour)
	file := c.configuration(m, prefix)
	maps.Copy(file, more)
	m.write(c.T, file)
	c.Cleanup(func() { m.kill() })
	c.run(m)
	return m
}

// run runs a node that does not run, and returns when it answers.
func (c *cluster) run(m *member) {
	c.Helper()
	m.cmd = exec.Command(c.program, "-c", m.config)
	m.cmd.Stderr = c.Output()
	if err := m.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	wait.Until(c.T, "node "+m.Instance, func() bool { return m.scrape() != "" })
}

// kill ends the process of a node.
func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended already
	_ = m.cmd.Wait()
}

func (c *cluster) configuration(m *member, prefix string) config {
	options := func(more config) config {
		o := config{
			"history_size": 10, "history_ttl": "1m", "force_recovery": true, "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true,
		}
		for key, v := range more {
			o[key] = v
		}
		return o
	}
	address := func(s *redistest.Server) config {
		return config{"address": []string{"redis://" + s.Addr()}, "prefix": prefix, "connect_timeout": "5s"}
	}
	return config{
		"http_server": config{"address": "127.0.0.1", "port": strconv.Itoa(m.port)},
		"node":        config{"name": m.Instance},
		"engine":      config{"type": "redis", "redis": address(c.redis)},
		"brokers":     []config{{"name": "aside", "enabled": true, "type": "redis", "redis": address(c.aside)}},
		"client": config{
			"allow_anonymous_connect_without_token": true, "connection_limit": 70, "queue_max_size": 65536,
			"token": config{"hmac_secret_key": secret, "hmac_previous_secret_key": previous},
		},
		"websocket":   config{"write_timeout": "1h"}, // who does not read is disconnected because of queue_max_size alone
		"http_api":    config{"insecure": true},
		"user_status": config{"enabled": true, "redis": address(c.aside)},
		"prometheus":  config{"enabled": true},
		"health":      config{"enabled": true},
		"shutdown":    config{"delay": "-1s"},
		"channel": config{"without_namespace": options(nil), "namespaces": []config{
			options(config{"name": "late", "batch_max_delay": slow.String()}), options(config{"name": "aside", "broker_name": "aside"}),
			{"name": "load", "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true},
			{
				"name": "prices", "subscription_type": "shared_poll", "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true,
				"shared_poll": config{"refresh_interval": "200ms", "proxy_name": "fails"},
			},
		}},
		"shared_poll": config{"hmac_secret_key": secret},
		"rpc": config{
			"proxy": config{"endpoint": c.backend + "/rpc"}, "without_namespace": config{"proxy_enabled": true},
			"namespaces": []config{
				{"name": "failing", "proxy_enabled": true, "proxy_name": "fails"}, {"name": "slow", "proxy_enabled": true, "proxy_name": "slow"},
			},
		},
		"proxies": []config{{"name": "fails", "endpoint": c.backend + "/fails"}, {"name": "slow", "endpoint": c.backend + "/slow", "timeout": "10s"}},
		"consumers": []config{{
			"name": "events", "enabled": true, "type": "redis_stream",
			"redis_stream": config{"address": "redis://" + c.redis.Addr(), "streams": []string{prefix + "-events"}, "consumer_group": "gyro", "visibility_timeout": "1s"},
		}},
		"grpc_api": config{
			"enabled": true, "address": "127.0.0.1", "port": m.grpc,
			"tls": config{"enabled": true, "cert_pem": m.config + ".cert", "key_pem": m.config + ".key"},
		},
	}
}

// write writes the configuration of a node.
func (m *member) write(t *testing.T, c config) {
	t.Helper()
	data, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(m.config, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reload has a node read its files again.
func (m *member) reload(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// scrape returns the metrics of a node, or nothing if it does not answer.
func (m *member) scrape() string {
	res, err := http.Get(m.url("/metrics"))
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

func (m *member) url(path string) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port)) + path
}

// api calls a method of the server API of the first node.
func (c *cluster) api(method string, params any) {
	c.Helper()
	data, err := json.Marshal(params)
	if err != nil {
		c.Fatal(err)
	}
	res, err := http.Post(c.nodes[0].url("/api/"+method), "application/json", bytes.NewReader(data))
	if err != nil {
		c.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		c.Errorf("%s: %s %s %v", method, res.Status, text, err)
	}
}

// connect connects a client to the first node.
func (c *cluster) connect(o sdk.Options) *sdk.Client {
	c.Helper()
	return c.connectTo(c.nodes[0], o)
}

// connectTo connects a client to a node.
func (c *cluster) connectTo(m *member, o sdk.Options) *sdk.Client {
	c.Helper()
	cl, err := sdk.New("ws"+strings.TrimPrefix(m.url("/connection/websocket"), "http"), o)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(c.Context(), wait.Limit)
	defer cancel()
	if err := cl.Connect(ctx); err != nil {
		c.Fatal(err)
	}
	return cl
}

// crowd connects clients, which leave when the function that it returns is called.
func (c *cluster) crowd(n int) (leave func()) {
	c.Helper()
	var all []*sdk.Client
	for range n {
		all = append(all, c.connect(sdk.Options{}))
	}
	c.sees("the crowd", fmt.Sprintf("gyro_node_num_clients %d", n))
	return func() {
		for _, cl := range all {
			cl.Close()
		}
		c.sees("nobody", "gyro_node_num_clients 0")
	}
}

// sees waits until the first node has a line in its metrics.
func (c *cluster) sees(what, line string) {
	c.Helper()
	wait.Until(c.T, what, func() bool { return strings.Contains(c.nodes[0].scrape(), "\n"+line+"\n") })
}

// value returns the sum of the series of the first node whose lines begin so.
func (c *cluster) value(series string) float64 { return c.nodes[0].value(series) }

// value returns the sum of the series of a node whose lines begin so.
func (m *member) value(series string) float64 { return sum(m.scrape(), series) }

// sum returns the sum of the series whose lines begin so.
func sum(scrape, series string) (total float64) {
	for _, line := range lines(scrape, series) {
		if n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64); err == nil {
			total += n
		}
	}
	return total
}

// grows does something, and waits until series of the first node have grown by at least so much.
func (c *cluster) grows(series string, by float64, do func()) {
	c.Helper()
	before := c.value(series)
	do()
	wait.Until(c.T, fmt.Sprintf("%s %v more", series, by), func() bool { return c.value(series) >= before+by })
}

// look is a scrape of all nodes, of the metrics that rules ask for.
type look map[target]string

// only returns a look at one of the metrics.
func (l look) only(name string) look {
	less := make(look)
	for of, text := range l {
		less[of] = "# TYPE " + name + " counter\n" + strings.Join(lines(text, name), "")
	}
	return less
}

func (c *cluster) look(others ...*member) look {
	c.Helper()
	asked := make(map[string]bool)
	for _, r := range theRules(c.T) {
		e, err := parser.ParseExpr(r.Expr)
		if err != nil {
			c.Fatal(err)
		}
		for _, name := range alertrules.Selected(e) {
			asked[name] = true
		}
	}
	l := make(look)
	for _, m := range slices.Concat(c.nodes, others) {
		var text strings.Builder
		for name, f := range parsed(c.T, m.scrape()) {
			if asked[name] || asked[name+"_bucket"] || asked[name+"_count"] {
				if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
					c.Fatal(err)
				}
			}
		}
		l[m.target] = text.String()
	}
	return l
}

// film is a store into which looks are put at times that are apart by a step, so that what takes minutes needs none.
type film struct {
	*testing.T
	store
	begun, now time.Duration // since 1970, as the metrics of nodes count
	last       look
}

func newFilm(t *testing.T, at time.Time) *film {
	d := time.Duration(at.UnixNano()).Truncate(step)
	return &film{t, newStore(), d, d, make(look)}
}

// still adds a look for some time in which nothing changes.
func (f *film) still(l look, d time.Duration) {
	f.Helper()
	f.goesOn(l, l, d)
}

// goesOn adds looks for some time in which it goes on as from one look to the next one: with each step, counters grow by the same as there,
// and gauges are those of the second one. Counters never fall, because others may have grown before as well.
func (f *film) goesOn(from, to look, d time.Duration) {
	f.Helper()
	for n := 0; d > 0; d -= step {
		f.now += step
		for of, text := range to {
			switch {
			case n > 0 && from[of] == text && text != "":
				text = f.last[of]
			case text != "":
				text = f.later(from[of], text, f.last[of], float64(n))
				f.last[of] = text
			}
			f.scraped(f.T, of, text, f.now)
		}
		n++
	}
}

// later returns a scrape whose counters have grown so many times more by what they grew between two scrapes, and that are not below
// those of the last scrape.
func (f *film) later(from, to, last string, times float64) string {
	f.Helper()
	before, families, floor := parsed(f.T, from), parsed(f.T, to), parsed(f.T, last)
	var out bytes.Buffer
	for name, family := range families {
		for _, m := range family.Metric {
			grow(m, same(before[name], m), same(floor[name], m), times)
		}
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			f.Fatal(err)
		}
	}
	return out.String()
}

func parsed(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := scrapes.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// same returns the metric of a family that has the labels of another.
func same(f *dto.MetricFamily, m *dto.Metric) *dto.Metric {
	for _, other := range f.GetMetric() {
		if slices.EqualFunc(other.Label, m.Label, func(a, b *dto.LabelPair) bool { return a.GetName() == b.GetName() && a.GetValue() == b.GetValue() }) {
			return other
		}
	}
	return new(dto.Metric)
}

// grow adds to a counter, or to the counters of a histogram, what it has grown by since before, so many times, and then raises it to a
// floor.
func grow(m, before, floor *dto.Metric, times float64) {
	add := func(v *float64, old, least float64) {
		if v != nil {
			*v = max(*v+(*v-old)*times, least)
		}
	}
	count := func(v *uint64, old, least uint64) {
		if v != nil {
			*v = max(*v+(*v-min(old, *v))*uint64(times), least)
		}
	}
	if m.Counter != nil {
		add(m.Counter.Value, before.GetCounter().GetValue(), floor.GetCounter().GetValue())
	}
	if s := m.Summary; s != nil {
		add(s.SampleSum, before.GetSummary().GetSampleSum(), floor.GetSummary().GetSampleSum())
		count(s.SampleCount, before.GetSummary().GetSampleCount(), floor.GetSummary().GetSampleCount())
	}
	if h := m.Histogram; h != nil {
		add(h.SampleSum, before.GetHistogram().GetSampleSum(), floor.GetHistogram().GetSampleSum())
		count(h.SampleCount, before.GetHistogram().GetSampleCount(), floor.GetHistogram().GetSampleCount())
		for i, b := range h.Bucket {
			count(b.CumulativeCount, bucket(before, i), bucket(floor, i))
		}
	}
}

// bucket returns a bucket of a histogram, 0 if there is none.
func bucket(m *dto.Metric, i int) uint64 {
	if list := m.GetHistogram().GetBucket(); i < len(list) {
		return list[i].GetCumulativeCount()
	}
	return 0
}

// alerts returns the times at which each rule fires.
func (f *film) alerts() map[string][]time.Duration {
	f.Helper()
	fired := make(map[string][]time.Duration)
	for _, r := range theRules(f.T) {
		if times := f.between(f.T, r, f.begun, f.now); len(times) > 0 {
			fired[r.Alert] = times
		}
	}
	return fired
}
