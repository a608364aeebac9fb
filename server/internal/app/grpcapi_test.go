package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/grpctest"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
	"github.com/gyrohq/gyro/server/internal/web"
)

// apiSchema is what users make clients of the API from.
var apiSchema = schematest.File("../api/api.proto")

// TestGRPCAPI: a client that is made from the schema publishes to a subscriber, the commands are counted, and the
// health service answers.
func TestGRPCAPI(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		measured(cfg)
		withGRPC(cfg)
		open(&cfg.Channel.WithoutNamespace)
	})
	c := s.connect("u")
	c.Subscribe("a", "")
	conn := dialGRPC(s, web.GRPCAPI, nil)
	if res, err := apiSchema.Invoke(keyed(s), conn, "Publish", `channel:"a" data:'{"n":1}'`); err != nil || res.Has("error") || !res.Has("result") {
		t.Errorf("%v, %v", res, err)
	}
	if p := c.Pub(); string(p.Data) != `{"n":1}` {
		t.Errorf("%s", p.Data)
	}
	info, err := apiSchema.Invoke(keyed(s), conn, "Info", "")
	if err != nil || info.Has("result.nodes.1") || info.Text("result.nodes.0.num_clients") != "1" {
		t.Errorf("%v, %v", info, err)
	}
	if info.Number("result.nodes.0.process.rss") < 1<<20 || info.Number("result.nodes.0.process.cpu") < 0 {
		t.Errorf("what the process takes: %v", info)
	}
	if res, err := apiSchema.Invoke(keyed(s), conn, "Publish", `channel:"no:a" data:"1"`); err != nil || res.Text("error.code") != "102" {
		t.Errorf("%v, %v", res, err)
	}
	s.api("publish", `{"channel":"a","data":1}`)
	s.wantMetric(2, "gyro_api_command_duration_seconds", "method=publish", "protocol=grpc")
	s.wantMetric(1, "gyro_api_command_duration_seconds", "method=publish", "protocol=http")
	s.wantMetric(1, "gyro_api_command_errors_total", "error=102", "method=publish", "protocol=grpc")
	if got, err := healthpb.NewHealthClient(conn).Check(t.Context(), new(healthpb.HealthCheckRequest)); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", got, err)
	}
	if want := fmt.Sprintf(`"listener":"grpc_api","address":%q,"tls":false`, s.app.Addr(web.GRPCAPI)); !strings.Contains(s.logged(), want) {
		t.Errorf("the log lacks %s:\n%s", want, s.logs)
	}
}

// TestGRPCAPITLS: with client_ca_pem only callers with a certificate of that authority get in; without a key
// they need nothing else.
func TestGRPCAPITLS(t *testing.T) {
	t.Parallel()
	server, client, foreign := certificate(1), certificate(2), certificate(3)
	server.ClientCAPEM = client.CertPEM
	s := startServer(t, func(cfg *config.Config) {
		withGRPC(cfg)
		cfg.GRPCAPI.TLS, cfg.GRPCAPI.Key = server, ""
	})
	pair := func(c config.ListenerTLS) []tls.Certificate {
		return []tls.Certificate{must(tls.X509KeyPair(must(c.CertPEM.Load()), must(c.KeyPEM.Load())))}
	}
	for name, c := range map[string]*tls.Config{
		"without TLS": nil, "without a certificate": {InsecureSkipVerify: true},
		"a foreign certificate": {InsecureSkipVerify: true, Certificates: pair(foreign)},
	} {
		if _, err := grpctest.Call(keyed(s), dialGRPC(s, web.GRPCAPI, c), api.MethodInfo, `{}`); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(s.logged(), `"key":"grpc_api.tls.client_ca_pem"`) {
		t.Errorf("the refusal is not in the log:\n%s", s.logs)
	}
	conn := dialGRPC(s, web.GRPCAPI, &tls.Config{InsecureSkipVerify: true, Certificates: pair(client)})
	if _, err := grpctest.Call(keyed(s), conn, api.MethodInfo, `{}`); err != nil {
		t.Error(err)
	}
}

// TestGRPCAPIExposed: an API that everybody can use is worth a warning.
func TestGRPCAPIExposed(t *testing.T) {
	t.Parallel()
	const warning = "everybody who reaches this port may use the server API"
	for name, tt := range map[string]struct {
		edit func(*config.GRPCAPI)
		want bool
	}{
		"open": {func(c *config.GRPCAPI) { c.Key = "" }, true}, "key": {func(*config.GRPCAPI) {}, false},
		"loopback":          {func(c *config.GRPCAPI) { c.Key, c.Address = "", "127.0.0.1" }, false},
		"TLS of the server": {func(c *config.GRPCAPI) { c.Key, c.TLS = "", certificate(1) }, true},
		"key with rights": {func(c *config.GRPCAPI) {
			c.Key, c.Keys = "", []config.APIKey{{Name: "billing", Key: "a-secret-of-billing", Methods: []string{"*"}}}
		}, false},
		"client certificates": {func(c *config.GRPCAPI) { c.Key, c.TLS = "", certificate(1); c.TLS.ClientCAPEM = c.TLS.CertPEM }, false},
	} {
		s := startServer(t, func(cfg *config.Config) {
			withGRPC(cfg)
			cfg.GRPCAPI.Address = ""
			tt.edit(&cfg.GRPCAPI)
		})
		if got := strings.Contains(s.logged(), warning); got != tt.want {
			t.Errorf("%s: warned: %v", name, got)
		}
	}
}

// TestGRPCAPIOpenedByReload: whoever takes the last key away by a reload is warned.
func TestGRPCAPIOpenedByReload(t *testing.T) {
	t.Parallel()
	key := apiKey
	edit := func(cfg *config.Config) {
		withGRPC(cfg)
		cfg.GRPCAPI.Address, cfg.GRPCAPI.Key = "", key
	}
	s := startServer(t, edit)
	conn := dialGRPC(s, web.GRPCAPI, nil)
	if _, err := grpctest.Call(t.Context(), conn, api.MethodInfo, `{}`); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	key = ""
	if err := s.app.Reload(testConfig(edit)); err != nil {
		t.Fatal(err)
	}
	if _, err := grpctest.Call(t.Context(), conn, api.MethodInfo, `{}`); err != nil {
		t.Error(err)
	}
	s.awaitLog("everybody who reaches this port may use the server API")
}

// TestGRPCAPIRefusesToStart: mistakes name the key.
func TestGRPCAPIRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, edit := range map[string]func(*config.GRPCAPI){
		"grpc_api.error_mode":               func(c *config.GRPCAPI) { c.ErrorMode = "x" },
		"grpc_api.max_receive_message_size": func(c *config.GRPCAPI) { c.MaxReceiveMessageSize = -1 },
		"grpc_api.keys[0](a)":               func(c *config.GRPCAPI) { c.Keys = []config.APIKey{{Name: "a"}} },
		"grpc_api.jwks.endpoint":            func(c *config.GRPCAPI) { c.JWKS.Enabled = true },
		"grpc_api.tls.cert_pem":             func(c *config.GRPCAPI) { c.TLS.Enabled = true },
		"grpc_api: listener":                func(c *config.GRPCAPI) { c.Port = taken.Addr().(*net.TCPAddr).Port },
	} {
		a, err := New(testConfig(func(cfg *config.Config) {
			withGRPC(cfg)
			edit(&cfg.GRPCAPI)
		}), Options{Logger: discard})
		if err == nil {
			err = a.Start(t.Context())
			_ = a.Shutdown(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
