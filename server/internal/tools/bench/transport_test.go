package bench

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// over returns the target with another transport, by TLS if it has TLS.
func over(target Target, transport string) Target {
	target.Transport = transport
	scheme, host := "http", strings.TrimPrefix(target.URL, "ws://")
	if strings.HasSuffix(transport, "websocket") {
		scheme = "ws"
	}
	if target.TLS != nil {
		scheme += "s"
	}
	host, _, _ = strings.Cut(host, "/")
	target.URL = scheme + "://" + host + "/connection/" + transport
	return target
}

// startSecureServer is startServer with TLS, whose certificate the target's clients verify.
func startSecureServer(t *testing.T, e protocol.Encoding) Target {
	t.Helper()
	s := httptest.NewTLSServer(nil) // has a certificate for this machine
	defer s.Close()
	text := func(kind string, der []byte) config.PEM {
		return config.PEM(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	target := startServerWith(t, e, func(cfg *config.Config) {
		c := &cfg.HTTPServer.TLS
		c.Enabled, c.CertPEM, c.KeyPEM = true, text("CERTIFICATE", s.Certificate().Raw), text("PRIVATE KEY", key)
	})
	target.API = "https" + strings.TrimPrefix(target.API, "http")
	target.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	target.TLS.RootCAs.AddCert(s.Certificate())
	return target
}

// TestTransports: each scenario over each transport, in each encoding that it has.
func TestTransports(t *testing.T) {
	t.Parallel()
	testTransports(t, startServer)
}

// TestSecureTransports: the same over TLS.
func TestSecureTransports(t *testing.T) {
	t.Parallel()
	testTransports(t, startSecureServer)
}

func testTransports(t *testing.T, start func(*testing.T, protocol.Encoding) Target) {
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		for _, transport := range Transports() {
			if e == protocol.Protobuf && transport != "websocket" && transport != "http_stream" {
				continue
			}
			t.Run(transport, func(t *testing.T) {
				t.Parallel()
				target := over(start(t, e), transport)
				oneWay := strings.HasPrefix(transport, "uni_")
				if transport == "uni_poll" {
					target.Channel = "kept:bench"
				}
				load := Load{Publishers: 2, Messages: 20, Window: 4, OverAPI: oneWay}
				rep, err := execute(t, Fanout{Target: target, Subscribers: 10, Channels: 2, Load: load})
				if err != nil || rep.Transport != transport || rep.Deliver.Expected != 200 || rep.Deliver.Received != 200 {
					t.Errorf("%v %+v", err, rep.Deliver)
				}
				// Messages end where a read does not. All of them fit into the queue of a client (1 MiB), so that none is too slow.
				large := target
				large.Size = 40_000
				overAPI := Load{Publishers: 2, Messages: 10, Window: 1, OverAPI: true}
				if rep, err = execute(t, Fanout{Target: large, Subscribers: 3, Channels: 1, Load: overAPI}); err != nil || rep.Deliver.Received != 60 {
					t.Errorf("%v %+v", err, rep.Deliver)
				}
				if rep, err = execute(t, Idle{Target: target, Connections: 10, Duration: time.Millisecond}); err != nil || rep.Idle.Connections != 10 {
					t.Errorf("%v %+v", err, rep.Idle)
				}
				kept := target
				kept.Channel = "kept:bench"
				load.Messages = 3
				rep, err = execute(t, Storm{Target: kept, Connections: 20, Channels: 3, Live: 200, Load: load})
				if err != nil || rep.Storm.Returned != 20 || rep.Storm.Recovered != 20 || rep.Storm.Missed < 60 {
					t.Errorf("%v %+v", err, rep.Storm)
				}
				if !oneWay {
					rep, err = execute(t, Publish{Target: target, Channels: 3, Load: Load{Publishers: 2, Messages: 25, Window: 10}})
					if err != nil || rep.Transport != transport || rep.Publish.Publications != 50 {
						t.Errorf("%v %+v", err, rep.Publish)
					}
				}
			})
		}
	})
}

// TestTransportRefused: combinations without sense name the flag.
func TestTransportRefused(t *testing.T) {
	t.Parallel()
	load := Load{Publishers: 1, Messages: 1, Window: 1}
	base := testTarget("http://127.0.0.1:1/connection/x", protocol.JSON)
	base.API = "http://127.0.0.1:1/api"
	with := func(transport string, edit func(*Target)) Target {
		base := base
		base.Transport = transport
		edit(&base)
		return base
	}
	nothing := func(*Target) {}
	apiLoad := load
	apiLoad.OverAPI = true
	for want, s := range map[string]scenarioOf{
		`transport: "pigeon" is none of websocket, http_stream`: Idle{Target: with("pigeon", nothing), Connections: 1, Duration: 1},
		"proto: sse has no Protobuf":                            Idle{Target: with("sse", func(t *Target) { t.Encoding = protocol.Protobuf }), Connections: 1, Duration: 1},
		"emulation: clients of uni_sse send no requests":        Idle{Target: with("uni_sse", func(t *Target) { t.Emulation = "http://x/emulation" }), Connections: 1, Duration: 1},
		`emulation: "x" is no http://`:                          Idle{Target: with("sse", func(t *Target) { t.Emulation = "x" }), Connections: 1, Duration: 1},
		`is no ws:// or wss:// address`:                         Idle{Target: with("uni_websocket", nothing), Connections: 1, Duration: 1},
		"emulation: clients of uni_poll send no requests":       Idle{Target: with("uni_poll", func(t *Target) { t.Emulation = "http://x/emulation" }), Connections: 1, Duration: 1},
		"via: clients of uni_http_stream cannot publish":        Fanout{Target: with("uni_http_stream", nothing), Subscribers: 1, Channels: 1, Load: load},
		"transport: no client connects":                         Publish{Target: with("sse", nothing), Channels: 1, Load: apiLoad},
	} {
		if rep, err := s.Run(t.Context()); rep != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestOneWayWithoutToken: the error says what is needed.
func TestOneWayWithoutToken(t *testing.T) {
	t.Parallel()
	target := over(startServer(t, protocol.JSON), "uni_sse")
	signed := target.Token
	target.Token = func(client int, _ ...string) (string, error) { return signed(client) }
	_, err := execute(t, Idle{Target: target, Connections: 1, Duration: 1})
	if err == nil || !strings.Contains(err.Error(), "token-hmac-secret") || !strings.Contains(err.Error(), `"bench"`) {
		t.Error(err)
	}
}

// TestPollsNeedRecovery: the error of a long poll on a channel whose messages it would miss says what is needed.
func TestPollsNeedRecovery(t *testing.T) {
	t.Parallel()
	target := over(startServer(t, protocol.JSON), "uni_poll")
	_, err := execute(t, Idle{Target: target, Connections: 1, Duration: 1})
	if err == nil || !strings.Contains(err.Error(), "force_recovery") {
		t.Error(err)
	}
}

// TestPollFaults: a response that is no answer to a poll ends the connection. So do an answer without
// positions, and a disconnect.
func TestPollFaults(t *testing.T) {
	t.Parallel()
	const first = `{"pushes":[],"subs":{"bench":{"recover":true,"offset":0,"epoch":"e"}}}`
	answer := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for name, test := range map[string]struct{ answers, want string }{
		"status":     {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP status 404 (the server needs uni_poll.enabled"},
		"no length":  {"HTTP/1.1 200 OK\r\n\r\n{}", "of unknown size"},
		"huge":       {"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "the limit is"},
		"garbage":    {answer("["), "malformed"},
		"positions":  {answer(`{"subs":[]}`), "malformed"},
		"plain":      {answer(`{"pushes":[],"subs":{"bench":{}}}`), "force_recovery"},
		"later":      {answer(first) + "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "1 connections lost"},
		"disconnect": {answer(first) + answer(`{"pushes":[{"disconnect":{"code":3001,"reason":"shutdown"}}],"subs":{}}`), "1 connections lost"},
		"end":        {answer(first) + "HTTP/1.1 200", "1 connections lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := testTarget(hijacking(t, test.answers), protocol.JSON)
			target.Transport = "uni_poll"
			if _, err := execute(t, Idle{Target: target, Connections: 1, Duration: wait.Limit}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// hijacking starts a server that answers the first request of a connection with these bytes, and closes
// the connection. It returns its URL.
func hijacking(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(answer)) // a client that is gone does not matter
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestUnknownCertificate: clients of each transport refuse a server that they cannot verify.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	target := startSecureServer(t, protocol.JSON)
	target.TLS = &tls.Config{}
	for _, transport := range Transports() {
		_, err := execute(t, Idle{Target: over(target, transport), Connections: 1, Duration: 1})
		if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); !unknown {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

// TestStreamFaults: a server that breaks the rules of HTTP, or the account of messages, does not pass.
func TestStreamFaults(t *testing.T) {
	t.Parallel()
	const subscribed = `{"connect":{"client":"c","subs":{"bench":{}}}}` + "\n"
	for name, test := range map[string]struct{ answer, want string }{
		"status":     {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP status 404 (the server needs uni_http_stream.enabled"},
		"no head":    {"HTTP/1.1 200", "no response"},
		"bad chunk":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "chunk of the size"},
		"huge chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n", "chunk of the size"},
		"garbage":    {"HTTP/1.1 200 OK\r\n\r\n]\n", "not a reply"},
		"disconnect": {"HTTP/1.1 200 OK\r\n\r\n" + `{"disconnect":{"code":3500,"reason":"invalid token"}}` + "\n", "invalid token"},
		"end":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2f\r\n" + subscribed + "\r\n0\r\n\r\n", "1 connections lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := testTarget(hijacking(t, test.answer), protocol.JSON)
			target.Transport = "uni_http_stream"
			if _, err := execute(t, Idle{Target: target, Connections: 1, Duration: wait.Limit}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
