package doctor

import (
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
)

// examine returns the findings about a configuration, one per line.
func examine(t *testing.T, edit func(*config.Config, *Options)) (text string, failed bool) {
	t.Helper()
	cfg := config.DefaultConfig()
	cfg.HTTPServer.Address, cfg.HTTPServer.Port = "127.0.0.1", 0
	cfg.Client.Token.HMACSecretKey = strings.Repeat("s", leastSecret)
	var out strings.Builder
	o := Options{Config: cfg, Timeout: wait.Limit, Check: func(*config.Config) error { return nil }, Report: func(f Finding) error {
		out.WriteString(string(f.Status) + " " + f.Area + ": " + f.Text + "\n")
		if f.Advice != "" {
			out.WriteString("-> " + f.Advice + "\n")
		}
		if (f.Advice == "") != (f.Status == OK) {
			t.Errorf("%+v: advice and status do not fit", f)
		}
		return nil
	}}
	if edit != nil {
		edit(cfg, &o)
	}
	failed, err := Examine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), failed
}

func TestHealthy(t *testing.T) {
	text, failed := examine(t, nil)
	want := `ok configuration: the server starts with it
ok tokens: connection tokens can be verified
ok limits: they are not examined on this system
ok ports: 127.0.0.1:0 is free
`
	if text != want || failed {
		t.Errorf("failed: %v\n%s", failed, text)
	}
}

func TestLimits(t *testing.T) {
	proc := func(files, backlog, ports, memory, most, used string) fstest.MapFS {
		m := fstest.MapFS{}
		for name, text := range map[string]string{
			"self/limits":            "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            " + files + " files     \n",
			"sys/net/core/somaxconn": backlog, "sys/net/ipv4/ip_local_port_range": ports, "sys/net/ipv4/tcp_mem": memory,
			"sys/net/netfilter/nf_conntrack_max": most, "sys/net/netfilter/nf_conntrack_count": used,
		} {
			m[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		return m
	}
	for _, tt := range []struct {
		proc     fstest.MapFS
		warnings int
	}{
		{proc("1024 4096", "128", "32768 33000", "100 200 300", "1000", "10"), 5},
		{proc("1024 1048576", "4096", "1024 65535", "100 200 3000000", "1048576", "10"), 0},
		{proc("unlimited unlimited", "4096", "1024 65535", "100 200 3000000", "1048576", "1000000"), 1},
		{fstest.MapFS{}, 0},
	} {
		text, failed := examine(t, func(_ *config.Config, o *Options) { o.Proc = tt.proc })
		if n := strings.Count(text, "warning limits: "); n != tt.warnings || failed {
			t.Errorf("%d warnings, want %d; failed: %v\n%s", n, tt.warnings, failed, text)
		}
	}
}

// TestTable: the kernel's table of connections is compared with the limit, or with the open files if they allow fewer.
func TestTable(t *testing.T) {
	const warns = "warning limits: the kernel's table of TCP connections has "
	const has = "ok limits: the kernel's table of TCP connections has "
	for _, tt := range []struct {
		places, files string
		limit         int
		want          string
	}{
		{"262144", "", 524288, has + "262144 places, enough for 524288 connections\n"},
		{"262144", "", 524289, warns + "262144 places for the 524289 "},
		{"-262144", "1024 2000000", 1000000, warns + "262144 places for the 1000000 "}, // it is the host's
		{"-262144", "1024 2000000", 1000000, "thash_entries=1048576; or, "},
		{"-262144", "1024 2000000", 1000000, "net.ipv4.tcp_child_ehash_entries=1048576 "},
		{"8192", "unlimited unlimited", 16385, warns + "8192 places for the 16385 "},
		{"8192", "", math.MaxInt32, "thash_entries=16777216; or, "},
		{"8192", "1024 16384", 1000000, has + "8192 places, enough for 16384 connections\n"},
		{"8192", "1048576 1048576", 0, has + "8192 places, enough for 16384 connections\n"}, // nobody knows how many there will be
		{"0", "", 1000000, ""},
		{"", "", 1000000, ""}, // Linux before 6.1
	} {
		proc := fstest.MapFS{}
		if tt.places != "" {
			proc["sys/net/ipv4/tcp_ehash_entries"] = &fstest.MapFile{Data: []byte(tt.places + "\n")}
		}
		if tt.files != "" {
			proc["self/limits"] = &fstest.MapFile{Data: []byte("Max open files            " + tt.files + " files     \n")}
		}
		text, failed := examine(t, func(c *config.Config, o *Options) { o.Proc, c.Client.ConnectionLimit = proc, tt.limit })
		if !strings.Contains(text, tt.want) || strings.Contains(text, "table") != (tt.want != "") || failed {
			t.Errorf("%+v: failed: %v\n%s", tt, failed, text)
		}
	}
}

func TestProblems(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	const secret = "secret-password"
	for want, edit := range map[string]func(*config.Config, *Options){
		"problem configuration: x.y: is wrong": func(_ *config.Config, o *Options) {
			o.Check = func(*config.Config) error { return errors.New("x.y: is wrong") }
		},
		"warning configuration: unknown key":    func(_ *config.Config, o *Options) { o.Warnings = []string{"unknown key"} },
		"problem tokens: no client can connect": func(c *config.Config, _ *Options) { c.Client.Token.HMACSecretKey = "" },
		"hmac_secret_key has 5 bytes":           func(c *config.Config, _ *Options) { c.Client.Token.HMACSecretKey = "short" },
		"is in use":                             func(c *config.Config, _ *Options) { c.HTTPServer.Port = port },
		"ok backends: client.proxy.connect.endpoint": func(c *config.Config, _ *Options) {
			c.Client.Proxy.Connect.Enabled, c.Client.Proxy.Connect.Endpoint = true, "http://"+ln.Addr().String()+"/x"
		},
		"problem backends: proxies[0](p).endpoint: 127.0.0.1:1 does not answer": func(c *config.Config, _ *Options) {
			c.Proxies = []config.NamedProxy{{Name: "p", Proxy: config.Proxy{Endpoint: "grpc://127.0.0.1:1"}}}
		},
		"problem redis: engine.redis: ": func(c *config.Config, _ *Options) {
			c.Engine.Type, c.Engine.Redis.Address = "redis", []string{"redis://:" + secret + "@127.0.0.1:1"}
		},
		"problem nats: broker.nats: ": func(c *config.Config, _ *Options) {
			c.Broker.Enabled, c.Broker.Type, c.Broker.NATS.URL = true, "nats", "nats://u:"+secret+"@127.0.0.1:1"
		},
		"problem postgresql: broker.postgres.dsn: ": func(c *config.Config, _ *Options) {
			c.Broker.Enabled, c.Broker.Type, c.Broker.Postgres.DSN = true, "postgres", "postgres://u:"+secret+"@127.0.0.1:1/db"
		},
	} {
		text, failed := examine(t, edit)
		if !strings.Contains(text, want) || failed != strings.Contains(want, "problem") || strings.Contains(text, secret) {
			t.Errorf("failed: %v, want %q:\n%s", failed, want, text)
		}
	}
}
