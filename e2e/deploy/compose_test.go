// Package deploy runs the services of deploy/compose without containers: the nodes and nginx with
// their configuration files, and Redis.
package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const folder = "../../deploy/compose"

// patience bounds every wait.
const patience = wait.Limit

// stand is the services of compose.yaml.
type stand struct {
	t     *testing.T
	nodes []*rig.Server
	// internal are the nodes' addresses for backends.
	internal []string
	// public and private are what nginx publishes.
	public, private string
	// ports and env start the nodes.
	ports []int
	env   [][]string
	// errors is the file of nginx's errors.
	errors string
}

func port(t *testing.T) int {
	t.Helper()
	p, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func start(t *testing.T) *stand {
	t.Helper()
	s := &stand{t: t}
	dir := t.TempDir()
	redis, err := rig.StartRedis(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Kill)
	conf := read(t, "nginx.conf")
	for i := range 2 {
		name, public, internal := fmt.Sprintf("gyro-%d", i+1), port(t), port(t)
		s.ports, s.env = append(s.ports, public), append(s.env, []string{
			"GYRO_HTTP_SERVER_INTERNAL_PORT=" + strconv.Itoa(internal),
			"GYRO_ENGINE_REDIS_ADDRESS=" + redis.Addr(),
			"GYRO_CLIENT_TOKEN_HMAC_SECRET_KEY=" + rig.TokenSecret,
			"GYRO_HTTP_API_KEY=" + rig.APIKey,
			"GYRO_NODE_NAME=" + name,
		})
		node := s.run(i)
		s.nodes = append(s.nodes, node)
		s.internal = append(s.internal, fmt.Sprintf("127.0.0.1:%d", internal))
		conf = replace(t, conf, "server "+name+":8000", "server "+node.Addr)
		conf = replace(t, conf, "server "+name+":9000", "server "+s.internal[i])
	}
	public, private := port(t), port(t)
	s.public, s.private = fmt.Sprintf("127.0.0.1:%d", public), fmt.Sprintf("127.0.0.1:%d", private)
	conf = replace(t, conf, "listen 8000;", "listen "+s.public+";")
	conf = replace(t, conf, "listen 9000;", "listen "+s.private+";")
	s.errors = filepath.Join(dir, "errors")
	conf = replace(t, conf, "/dev/stderr", s.errors)
	conf = replace(t, conf, "/tmp/nginx.pid", filepath.Join(dir, "nginx.pid"))
	s.nginx(dir, conf)
	return s
}

// run starts a node, until the test ends.
func (s *stand) run(i int) *rig.Server {
	s.t.Helper()
	args := []string{"-c", filepath.Join(folder, "gyro.json"), "-a", "127.0.0.1", "-p", strconv.Itoa(s.ports[i])}
	node, err := rig.StartServer(s.ports[i], args, s.env[i])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(node.Stop)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("log of gyro-%d:\n%s", i+1, node.Log())
		}
	})
	return node
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// replace replaces old, which must occur exactly once.
func replace(t *testing.T, text, old, new string) string {
	t.Helper()
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("%q is there %d times, want once", old, n)
	}
	return strings.Replace(text, old, new, 1)
}

// nginx runs it until the test ends.
func (s *stand) nginx(dir, conf string) {
	s.t.Helper()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		bin = "/usr/sbin/nginx"
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command(bin, "-t", "-q", "-p", dir, "-c", file).CombinedOutput(); err != nil {
		s.t.Fatalf("nginx (apt-get install nginx-light) does not take the file: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "-p", dir, "-c", file, "-g", "daemon off;")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = exec.Command(bin, "-p", dir, "-c", file, "-s", "stop").Run() // its workers, too
		_ = cmd.Wait()
	})
	wait.Until(s.t, "nginx answers", func() bool {
		resp, err := http.Get("http://" + s.private + "/health/ready")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
}

// api calls a method at an address.
func (s *stand) api(address, method string, params, result any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := (&rig.Server{Addr: address}).API(ctx, method, params, result); err != nil {
		s.t.Fatal(err)
	}
}

// client is connected through nginx and subscribed.
type client struct {
	*centrifuge.Client
	subscribed   chan centrifuge.SubscribedEvent
	publications chan int
}

func (s *stand) connect(user, channel string) *client {
	s.t.Helper()
	c := &client{subscribed: make(chan centrifuge.SubscribedEvent, 64), publications: make(chan int, 64)}
	c.Client = centrifuge.NewJsonClient("ws://"+s.public+"/connection/websocket", centrifuge.Config{
		Token:             rig.Token(map[string]any{"sub": user}),
		MinReconnectDelay: 10 * time.Millisecond, MaxReconnectDelay: 200 * time.Millisecond,
	})
	s.t.Cleanup(c.Close)
	sub, err := c.NewSubscription(channel)
	if err != nil {
		s.t.Fatal(err)
	}
	sub.OnSubscribed(func(e centrifuge.SubscribedEvent) { c.subscribed <- e })
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var data struct{ N int }
		_ = json.Unmarshal(e.Data, &data) // 0 is wrong as well
		c.publications <- data.N
	})
	if err := c.Connect(); err != nil {
		s.t.Fatal(err)
	}
	if err := sub.Subscribe(); err != nil {
		s.t.Fatal(err)
	}
	next(s.t, "subscribed", c.subscribed)
	return c
}

func next[T any](t *testing.T, what string, events <-chan T) T {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		t.Fatalf("no event within %v: %s", patience, what)
		panic("unreachable")
	}
}

// clients returns how many connections a node says that it has.
func (s *stand) clients(node int) (n int) {
	s.t.Helper()
	var info struct {
		Nodes []struct {
			Name       string
			NumClients int `json:"num_clients"`
		}
	}
	s.api(s.internal[node], "info", map[string]any{}, &info)
	for _, i := range info.Nodes {
		if i.Name == fmt.Sprintf("gyro-%d", node+1) {
			n = i.NumClients
		}
	}
	return n
}

func TestCompose(t *testing.T) {
	s := start(t)
	left, right := s.connect("left", "chat:a"), s.connect("right", "chat:a")
	wait.Until(s.t, "one client on each node", func() bool { return s.clients(0) == 1 && s.clients(1) == 1 })
	publish := func(n int) {
		s.api(s.private, "publish", map[string]any{"channel": "chat:a", "data": map[string]int{"n": n}}, nil)
	}
	for n := 1; n <= 5; n++ {
		publish(n)
		for _, c := range []*client{left, right} {
			if got := next(t, "publication", c.publications); got != n {
				t.Fatalf("got %d, want %d", got, n)
			}
		}
	}

	// The client of a node that dies reconnects to the other node and misses nothing.
	s.nodes[0].Kill()
	for n := 6; n <= 10; n++ {
		publish(n)
	}
	for n := 6; n <= 10; n++ {
		for _, c := range []*client{left, right} {
			if got := next(t, "publication", c.publications); got != n {
				t.Fatalf("got %d, want %d", got, n)
			}
		}
	}
	wait.Until(s.t, "both clients on the node that is left", func() bool { return s.clients(1) == 2 })

	for path, want := range map[string]int{"/api/info": http.StatusNotFound, "/health": http.StatusNotFound, "/metrics": http.StatusNotFound, "/": http.StatusNotFound} {
		resp, err := http.Get("http://" + s.public + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Body.Close() != nil || resp.StatusCode != want {
			t.Errorf("%s is open to the public: %s, %v", path, resp.Status, err)
		}
	}
}

// Nodes restart one after the other, and nginx has a node for each client that comes back, at any time.
func TestRollingRestart(t *testing.T) {
	s := start(t)
	const all = 40
	for i := range all {
		s.connect(fmt.Sprint("user", i), "chat:a")
	}
	begun := time.Now()
	for round := range 2 {
		for i := range s.nodes {
			wait.Until(t, "clients on both nodes", func() bool { return s.clients(0)+s.clients(1) == all })
			s.nodes[i].Stop()
			s.nodes[i] = s.run(i)
			t.Logf("%.1f s: node %d runs again, round %d", time.Since(begun).Seconds(), i+1, round+1)
		}
	}
	wait.Until(t, "all clients are back", func() bool { return s.clients(0)+s.clients(1) == all })
	t.Logf("%.1f s: all clients are back", time.Since(begun).Seconds())
	log, err := os.ReadFile(s.errors)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "no live upstreams"); n > 0 {
		t.Errorf("nginx refused %d connections although a node was there:\n%.2000s", n, log)
	}
}

// TestPrometheus: the configured scrapes work, and their metrics have the right values.
func TestPrometheus(t *testing.T) {
	compose, prometheus := read(t, "compose.yaml"), read(t, "../prometheus/prometheus.yml")
	for _, service := range []string{"gyro-1:9000", "gyro-2:9000", "redis-exporter:9121"} {
		name, _, _ := strings.Cut(service, ":")
		if !strings.Contains(compose, "\n  "+name+":\n") || strings.Count(prometheus, service) != 1 {
			t.Errorf("%s is not both a service and watched", service)
		}
	}
	if strings.Contains(prometheus, "metrics_path") {
		t.Error("another path than /metrics, which is where nodes are scraped here")
	}
	s := start(t)
	c := s.connect("ann", "chat:a")
	s.api(s.private, "publish", map[string]any{"channel": "chat:a", "data": map[string]int{"n": 1}}, nil)
	next(t, "publication", c.publications)
	for i := range s.nodes {
		for _, want := range []string{
			"gyro_node_ready 1", "gyro_node_num_nodes 2", `gyro_broker_delivers{broker_name="",shard="0"} 1`,
			`gyro_broker_canary_delay_seconds{broker_name="",shard="0"} 0.`, "gyro_node_canary_delay_seconds ", "go_goroutines ", "process_open_fds ",
		} {
			wait.Until(s.t, want, func() bool { return strings.Contains(s.metrics(i), "\n"+want) })
		}
	}
	sum := func(name string) (n int) {
		for i := range s.nodes {
			_, rest, found := strings.Cut(s.metrics(i), "\n"+name+" ")
			line, _, _ := strings.Cut(rest, "\n")
			if k, err := strconv.Atoi(line); err == nil {
				n += k
			} else if found {
				t.Errorf("%s is %s", name, line)
			}
		}
		return n
	}
	for _, name := range []string{"gyro_node_num_clients", "gyro_node_num_users", "gyro_node_num_subscriptions", "gyro_node_num_channels",
		`gyro_api_command_duration_seconds_count{method="publish",protocol="http"}`} {
		wait.Until(s.t, name, func() bool { return sum(name) == 1 })
	}
}

// metrics of a node.
func (s *stand) metrics(node int) string {
	s.t.Helper()
	resp, err := http.Get("http://" + s.internal[node] + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s, %v: %s", resp.Status, err, text)
	}
	return "\n" + string(text)
}
