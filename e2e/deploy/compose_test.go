// Package deploy runs the services of deploy/compose without containers: nodes, nginx and Redis; and the nodes behind
// the load balancers of docs/load-balancers.md.
package deploy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const folder = "../../deploy/compose"

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s *stand) api(address, method string, params, result any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	if err := (&rig.Server{Addr: address}).API(ctx, method, params, result); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) count(node int) (n int) {
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

func (s *stand) checks(well bool) {
	s.t.Helper()
	const check = `test: ["CMD", "/gyro", "health", "--timeout", "2s"]`
	if !strings.Contains(read(s.t, "compose.yaml"), check) {
		s.t.Fatal("the file has another check")
	}
	bin, err := rig.Binary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), bin, "health", "--timeout", "2s", "-c", filepath.Join(folder, "gyro.json"), "-a", hosts[0], "-p", strconv.Itoa(s.clients))
	cmd.Env = append(os.Environ(), s.env...)
	if out, err := cmd.CombinedOutput(); (err == nil) != well {
		s.t.Errorf("gyro health: %v %s", err, out)
	}
}

func TestCompose(t *testing.T) {
	s := start(t, compose)
	left, right := s.connect("left", "chat:a"), s.connect("right", "chat:a")
	wait.Until(s.t, "one client on each node", func() bool { return s.count(0) == 1 && s.count(1) == 1 })
	publish := func(n int) {
		s.api(s.private, "publish", map[string]any{"channel": "chat:a", "data": map[string]int{"n": n}}, nil)
	}
	for n := 1; n <= 5; n++ {
		publish(n)
		for _, c := range []*client{left, right} {
			if got := wait.Receive(t, "publication", c.publications); got != n {
				t.Fatalf("got %d, want %d", got, n)
			}
		}
	}

	s.checks(true)

	// The client of a node that dies reconnects to the other node and misses nothing.
	s.nodes[0].Kill()
	s.checks(false)
	for n := 6; n <= 10; n++ {
		publish(n)
	}
	for n := 6; n <= 10; n++ {
		for _, c := range []*client{left, right} {
			if got := wait.Receive(t, "publication", c.publications); got != n {
				t.Fatalf("got %d, want %d", got, n)
			}
		}
	}
	wait.Until(s.t, "both clients on the node that is left", func() bool { return s.count(1) == 2 })

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

// TestPrometheus: the configured scrapes work, and their metrics have the right values.
func TestPrometheus(t *testing.T) {
	services, prometheus := read(t, "compose.yaml"), read(t, "../prometheus/prometheus.yml")
	for _, service := range []string{"gyro-1:9000", "gyro-2:9000", "redis-exporter:9121"} {
		name, _, _ := strings.Cut(service, ":")
		if !strings.Contains(services, "\n  "+name+":\n") || strings.Count(prometheus, service) != 1 {
			t.Errorf("%s is not both a service and watched", service)
		}
	}
	if strings.Contains(prometheus, "metrics_path") {
		t.Error("another path than /metrics, which is where nodes are scraped here")
	}
	s := start(t, compose)
	c := s.connect("ann", "chat:a")
	s.api(s.private, "publish", map[string]any{"channel": "chat:a", "data": map[string]int{"n": 1}}, nil)
	wait.Receive(t, "publication", c.publications)
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
