// Package acme tests http_server.tls_autocert against a real ACME authority: pebble, which runs
// in this process.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/protocol"
)

const patience = time.Minute

func TestMain(m *testing.M) {
	// Otherwise pebble waits up to 15 s before it looks at the answer to a challenge.
	if err := os.Setenv("PEBBLE_VA_NOSLEEP", "1"); err != nil {
		panic(err)
	}
	os.Exit(rig.Run(m))
}

// startDNS: every host is 127.0.0.1.
func startDNS(t *testing.T) (addr string) {
	t.Helper()
	addr = fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	s, err := challtestsrv.New(challtestsrv.Config{Log: log.New(io.Discard, "", 0), DNSAddrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetDefaultDNSIPv4("127.0.0.1")
	s.SetDefaultDNSIPv6("")
	go s.Run()
	t.Cleanup(s.Shutdown)
	wait.Until(t, "the name server", func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
	return addr
}

type authority struct {
	server *httptest.Server
	roots  *x509.CertPool // of the certificates that it issues
	out    logtest.Buffer
}

func (a *authority) orders() int {
	return strings.Count(a.out.String(), "Issued certificate serial")
}

// startAuthority runs a pebble that issues certificates for seconds, looks for challenges at these ports, and refuses
// blocked.example.
func startAuthority(t *testing.T, seconds uint64, tlsPort, httpPort int) *authority {
	t.Helper()
	a := &authority{roots: x509.NewCertPool()}
	logger := log.New(&a.out, "", 0)
	store := db.NewMemoryStore()
	if err := store.AddBlockedDomain("blocked.example"); err != nil {
		t.Fatal(err)
	}
	issuer := ca.New(logger, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: seconds}})
	validation := va.New(logger, httpPort, tlsPort, false, startDNS(t), store)
	front := wfe.New(logger, store, validation, issuer, []string{"pebble.example"}, false, false, 1, 1)
	a.server = httptest.NewTLSServer(front.Handler())
	t.Cleanup(a.server.Close)
	a.roots.AddCert(issuer.GetRootCert(0).Cert)
	return a
}

type server struct {
	*rig.Server
	t    *testing.T
	addr string
	ca   *authority
}

func startServer(t *testing.T, a *authority, port int, dir string, autocert map[string]any) *server {
	t.Helper()
	autocert["enabled"], autocert["cache_dir"], autocert["email"] = true, filepath.Join(dir, "cache"), "admin@rt.example"
	autocert["directory_url"] = a.server.URL + wfe.DirectoryPath
	autocert["directory_ca_pem"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw}))
	text, err := json.Marshal(map[string]any{
		"http_server": map[string]any{"address": "127.0.0.1", "port": port, "tls_autocert": autocert},
		"client":      map[string]any{"insecure": true, "ping_interval": "1h"},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := rig.Launch(port, []string{"-c", file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: p, t: t, addr: "127.0.0.1:" + strconv.Itoa(port), ca: a}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("server: %s", s.Log())
		}
	})
	wait.Until(t, "the listener", func() bool {
		c, err := net.Dial("tcp", s.addr)
		return err == nil && c.Close() == nil
	})
	return s
}

func (s *server) dial(host string) (*tls.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	return tls.DialWithDialer(dialer, "tcp", s.addr, &tls.Config{ServerName: host, RootCAs: s.ca.roots})
}

// serial of the certificate for a host; empty if there is none.
func (s *server) serial(host string) string {
	s.t.Helper()
	c, err := s.dial(host)
	if err != nil {
		return ""
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestIssuance: by both challenges, the first handshake gets a certificate, which clients verify; it is renewed in time,
// while connections stay; and it survives a restart without the authority.
func TestIssuance(t *testing.T) {
	const host = "rt.example"
	for name, byHTTP := range map[string]bool{"tls-alpn-01": false, "http-01": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, httpPort, nobody := rig.Port(t), rig.Port(t), rig.Port(t)
			autocert := map[string]any{"host_whitelist": []string{host}, "server_name": host}
			tlsPort := port
			if byHTTP {
				autocert["http"], autocert["http_addr"] = true, "127.0.0.1:"+strconv.Itoa(httpPort)
				tlsPort = nobody // so that this challenge fails
			}
			dir := t.TempDir()
			a := startAuthority(t, 24, tlsPort, httpPort)
			s := startServer(t, a, port, dir, autocert)
			first := s.serial(host)
			if first == "" {
				t.Fatal("the first handshake fails")
			}
			c := gyrotest.Dial(t, "wss://"+host+"/connection/websocket", &gyrotest.Options{
				DialContext: func(context.Context, string, string) (net.Conn, error) { return s.dial(host) },
			})
			c.Connect(nil)
			if got := s.serial(host); got != first || a.orders() != 1 {
				t.Errorf("the second handshake: certificate %s of %d, not %s", got, a.orders(), first)
			}
			if got := s.serial("other.example"); got != "" {
				t.Error("there is a certificate for a host that is not in the list")
			}
			wait.Until(t, "the renewal", func() bool {
				got := s.serial(host)
				return got != "" && got != first
			})
			if _, err := c.Try(&protocol.Command{RPC: &protocol.RPCRequest{Method: "none"}}); !errors.Is(err, protocol.ErrorNotAvailable) {
				t.Errorf("the connection does not stay: %v", err)
			}
			s.Stop()
			wait.Until(t, "the renewal in the cache", func() bool { return a.orders() >= 2 })
			renewed := a.orders()
			a.server.Close()
			again := startServer(t, a, port, dir, autocert)
			if again.serial(host) == "" || a.orders() != renewed {
				t.Errorf("after a restart: no certificate, or one more than %d", renewed)
			}
		})
	}
}

// TestRefused: what the authority refuses is in the log, and other hosts go on.
func TestRefused(t *testing.T) {
	t.Parallel()
	port := rig.Port(t)
	s := startServer(t, startAuthority(t, 3600, port, rig.Port(t)), port, t.TempDir(), map[string]any{"host_whitelist": []string{"rt.example", "blocked.example"}})
	wait.Until(t, "the certificate of the other host", func() bool { return s.serial("rt.example") != "" })
	wait.Until(t, "the line in the log", func() bool {
		return strings.Contains(s.Log(), "no certificate could be obtained by ACME") && strings.Contains(s.Log(), `"host":"blocked.example"`)
	})
	if s.serial("blocked.example") != "" {
		t.Error("there is a certificate for what the authority refuses")
	}
	wait.Until(t, "the refusal in the log", func() bool {
		return strings.Contains(s.Log(), "connection refused: its TLS is not allowed") && strings.Contains(s.Log(), `"key":"http_server.tls_autocert"`)
	})
}
