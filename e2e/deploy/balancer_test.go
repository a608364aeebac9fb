package deploy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

type balancer struct {
	name    string
	program string
	file    string // of its configuration
	tls     bool
	args    func(dir, file string) []string
	// text is the configuration of the documentation or of deploy; here has the differences in a test, pairs of old and
	// new texts, besides addresses, ports and paths of certificates.
	text func(*testing.T) string
	here func(*stand) []string
	// refuses is in the log when the load balancer knows no node for a client.
	refuses string
}

var nginx = balancer{
	program: "nginx", file: "nginx.conf", refuses: "no live upstreams",
	args: rig.Nginx,
}

var compose = func() *balancer {
	b := nginx
	b.name = "compose"
	b.text = func(t *testing.T) string { return read(t, "nginx.conf") }
	b.here = func(s *stand) []string {
		return []string{
			"listen 8000;", "listen " + s.public + ";", "listen 9000;", "listen " + s.private + ";", "/tmp/nginx.pid", filepath.Join(s.dir, "nginx.pid"),
		}
	}
	return &b
}()

var balancers = []*balancer{
	compose,
	func() *balancer {
		b := nginx
		b.name, b.tls = "nginx", true
		b.text = func(t *testing.T) string { return rig.WholeNginx("", example(t, "gyro.conf")) }
		b.here = func(s *stand) []string {
			return []string{"listen 443 ssl http2;", "listen " + s.public + " ssl http2;"}
		}
		return &b
	}(),
	func() *balancer {
		b := nginx
		b.name = "ingress"
		b.text = ingress
		b.here = func(s *stand) []string { return []string{"listen 80;", "listen " + s.public + ";"} }
		return &b
	}(),
	{
		name: "haproxy", program: "haproxy", file: "haproxy.cfg", tls: true, refuses: "no server available",
		args: func(_, file string) []string { return []string{"-db", "-f", file} },
		text: func(t *testing.T) string { return example(t, "haproxy.cfg") },
		here: func(s *stand) []string {
			return []string{"bind :443", "bind " + s.public, "maxconn 100000", "maxconn 1000"}
		},
	},
	{
		name: "caddy", program: "caddy", file: "Caddyfile", tls: true, refuses: "no upstreams available",
		args: func(_, file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
		text: func(t *testing.T) string {
			return "{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + example(t, "Caddyfile")
		},
		here: func(s *stand) []string {
			_, port, _ := net.SplitHostPort(s.public) // it is one
			return []string{
				"rt.example.com {", fmt.Sprintf("https://rt.example.com:%s {\n\tbind 127.0.0.1\n\ttls %s %s", port, s.cert, s.key),
			}
		},
	},
	{
		name: "envoy", program: "envoy", file: "envoy.yaml", tls: true, refuses: "no healthy upstream",
		args: func(_, file string) []string {
			return []string{"-c", file, "--concurrency", "2", "--disable-hot-restart", "--log-level", "warning"}
		},
		text: func(t *testing.T) string { return example(t, "envoy.yaml") },
		here: func(s *stand) []string {
			_, port, _ := net.SplitHostPort(s.public)
			return []string{"address: 0.0.0.0, port_value: 443", "address: 127.0.0.1, port_value: " + port}
		},
	},
}

func (b *balancer) find(t *testing.T) string {
	t.Helper()
	if b.program != "envoy" {
		return need.Program(t, b.program)
	}
	// It is a package of PyPI.
	path, err := filepath.Abs("../../.cache/venv/bin/envoy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		need.Skip(t, "envoy", "make ci PART=interop")
	}
	return path
}

func (b *balancer) configuration(s *stand) string {
	s.t.Helper()
	text := b.text(s.t)
	pairs := b.here(s)
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(text, pairs[i]); n != 1 {
			s.t.Fatalf("%q is there %d times, want once:\n%s", pairs[i], n, text)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	both := filepath.Join(s.dir, "both.pem") // HAProxy wants one file
	var pem []byte
	for _, name := range []string{s.cert, s.key} {
		data, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		pem = append(pem, data...)
	}
	if err := os.WriteFile(both, pem, 0o600); err != nil {
		s.t.Fatal(err)
	}
	const letsencrypt = "/etc/letsencrypt/live/rt.example.com/"
	return strings.NewReplacer(
		"server gyro-1", "server "+hosts[0], "server gyro-2", "server "+hosts[1], "10.0.0.1", hosts[0], "10.0.0.2", hosts[1],
		letsencrypt+"fullchain.pem", s.cert, letsencrypt+"privkey.pem", s.key, "/etc/haproxy/rt.example.com.pem", both,
		":8000", fmt.Sprint(":", s.clients), ":9000", fmt.Sprint(":", s.backends), " 8000", fmt.Sprint(" ", s.clients), " 9000", fmt.Sprint(" ", s.backends),
	).Replace(text)
}

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := rig.Example("../..", name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ingress is the Ingress of the chart as nginx: its paths, and the settings of its annotations. The NGINX ingress
// controller takes nodes in turn, tries the next one if one refuses, and sets none aside. It also leaves out nodes that
// are not ready, which this does not.
func ingress(t *testing.T) string {
	t.Helper()
	chart := func(name string) string {
		data, err := os.ReadFile(filepath.Join("../../deploy/helm/gyro", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var locations, settings strings.Builder
	for _, m := range regexp.MustCompile(`nginx\.ingress\.kubernetes\.io/proxy-(read|send)-timeout: "(\d+)"`).FindAllStringSubmatch(chart("values.yaml"), -1) {
		fmt.Fprintf(&settings, "proxy_%s_timeout %ss;\n", m[1], m[2])
	}
	for _, m := range regexp.MustCompile(`- path: (/\w+)`).FindAllStringSubmatch(chart("templates/service.yaml"), -1) {
		fmt.Fprintf(&locations, "location %s { proxy_pass http://nodes; }\n", m[1])
	}
	if settings.Len() == 0 || locations.Len() == 0 {
		t.Fatal("the chart has no annotations or no paths for an ingress")
	}
	return rig.WholeNginx("", `
map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
upstream nodes {
	zone nodes 64k;
	server 10.0.0.1:8000 max_fails=0;
	server 10.0.0.2:8000 max_fails=0;
	keepalive 320;
}
server {
	listen 80;
	proxy_http_version 1.1;
	proxy_set_header Host $http_host;
	proxy_set_header Upgrade $http_upgrade;
	proxy_set_header Connection $connection_upgrade;
	proxy_connect_timeout 5s;
	proxy_next_upstream error timeout;
	proxy_next_upstream_tries 3;
	proxy_buffering off;
	`+settings.String()+locations.String()+"}\n")
}

// TestRollingRestart: nodes restart one after the other, each as soon as the one before is ready, and the load balancer
// has a node for each client that comes back.
func TestRollingRestart(t *testing.T) {
	for _, b := range balancers {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, b, "GYRO_SHUTDOWN_DELAY=0s") // by default 3 s
			const all = 40
			var list []*client
			for i := range all {
				list = append(list, s.connect(fmt.Sprint("user", i), "chat:a"))
			}
			begun := time.Now()
			for range 2 {
				for i := range s.nodes {
					wait.Until(t, "clients on both nodes", func() bool { return s.count(0)+s.count(1) == all })
					s.nodes[i].Stop()
					s.nodes[i] = s.run(i)
				}
			}
			wait.Until(t, "all clients are back", func() bool { return s.count(0)+s.count(1) == all })
			var longest time.Duration
			for _, c := range list {
				_, away, _ := c.Away(time.Now(), false)
				longest = max(longest, away)
			}
			t.Logf("%s: four restarts in %.1f s, no client was away for more than %.2f s", b.name, time.Since(begun).Seconds(), longest.Seconds())
			if n := strings.Count(s.front.Log(), b.refuses); n > 0 {
				t.Errorf("%s refused %d connections although a node was there", b.name, n)
			}
		})
	}
}
