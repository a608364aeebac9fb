package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/acme"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

// secureURL is the address of a path on the external listener with TLS.
func secureURL(s *testServer, path string) string {
	return "https://" + s.app.Addr("external") + path
}

// TestCertificateReload: 1,000 clients stay when the certificate changes, and new ones see the
// new one.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	const clients, dialers = 1000, 8
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(o config.ListenerTLS) {
		t.Helper()
		must(0, os.WriteFile(cert, []byte(o.CertPEM), 0o600))
		must(0, os.WriteFile(key, []byte(o.KeyPEM), 0o600))
	}
	put(certificate(1))
	// The log of every frame would take longer than the test.
	s := startServerAt(t, "info", func(cfg *config.Config) {
		cfg.HTTPServer.TLS = certificate(1)
		cfg.HTTPServer.TLS.CertPEM, cfg.HTTPServer.TLS.KeyPEM = config.PEM(cert), config.PEM(key)
	})
	token := s.tokenField(jwt.MapClaims{"sub": "u", "channels": []string{"a"}})
	all := make([]*wstest.Client, clients)
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < clients; i += dialers {
				all[i] = wstest.Dial(t, secureURL(s, "/connection/websocket"), nil)
				all[i].Connect(token)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	put(certificate(2))
	if err := s.app.Reload(s.cfg); err != nil {
		t.Fatal(err)
	}
	if got := serial(t, s.app.Addr("external")); got != 2 {
		t.Errorf("a new client sees certificate %d", got)
	}
	s.awaitLog("TLS files have changed and are in force", cert+", "+key)
	if _, err := s.app.Node().Publish(t.Context(), "a", []byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		c.Pub()
	}
	if n := s.app.Node().NumClients(); n != clients {
		t.Errorf("%d clients are left", n)
	}
}

// TestClientCertificateRefused: the log names the client's address and the key.
func TestClientCertificateRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		apart(cfg)
		cfg.HTTPServer.InternalTLS = certificate(1)
		cfg.HTTPServer.InternalTLS.ClientCAPEM = cfg.HTTPServer.InternalTLS.CertPEM
	})
	conn := must(tls.Dial("tcp", s.app.Addr("internal"), &tls.Config{InsecureSkipVerify: true}))
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("the client without a certificate gets %v", err)
	}
	s.awaitLog("connection refused: its TLS is not allowed", conn.LocalAddr().String(), "the client shows no certificate", "http_server.internal_tls.client_ca_pem")
}

// TestSessionsOfNodes: a second node with the same secret resumes the session of the first one.
func TestSessionsOfNodes(t *testing.T) {
	t.Parallel()
	const secret = "secret of session tickets, 32 bytes"
	o := certificate(1)
	o.TicketSecret = secret
	client := &tls.Config{InsecureSkipVerify: true, ServerName: "a.example", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := range 4 {
		s := startServer(t, func(cfg *config.Config) { cfg.HTTPServer.TLS = o })
		s.secrets = append(s.secrets, secret)
		conn := must(tls.Dial("tcp", s.app.Addr("external"), client))
		// The ticket comes before the answer.
		must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
		must(io.Copy(io.Discard, conn))
		if resumed := conn.ConnectionState().DidResume; resumed != (i > 0) {
			t.Errorf("node %d: resumed %v", i, resumed)
		}
		conn.Close()
	}
}

// acmeCache makes a directory as a server leaves it that has obtained a certificate, with
// the answer to a challenge in it.
func acmeCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, number := range map[string]int64{"a.example": 7, "a.example+token": 9} {
		key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		template := &x509.Certificate{
			SerialNumber: big.NewInt(number), DNSNames: []string{"a.example"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		}
		var text bytes.Buffer
		must(0, pem.Encode(&text, &pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(key))}))
		must(0, pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))}))
		must(0, os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600))
	}
	return dir
}

// TestAutocert: a server with certificates in its cache, without an authority that answers. Both
// listeners have them; http_addr redirects; who comes with the protocol of challenges is not
// served, or it would get around client certificates. Of http_server.tls, the rest is in force if
// it is enabled.
func TestAutocert(t *testing.T) {
	t.Parallel()
	object := config.DefaultConfig().HTTPServer.TLS
	object.CertPEM, object.ClientCAPEM, object.MinVersion = "nothing", "nothing", "1.3"
	t.Run("alone", func(t *testing.T) { testAutocert(t, object, tls.VersionTLS12) })
	object.Enabled, object.ClientCAPEM = true, ""
	t.Run("with http_server.tls", func(t *testing.T) { testAutocert(t, object, tls.VersionTLS13) })
}

func testAutocert(t *testing.T, object config.ListenerTLS, oldest uint16) {
	s := startServer(t, func(cfg *config.Config) {
		apart(cfg)
		cfg.HTTPServer.TLS = object
		cfg.HTTPServer.TLSAutocert = config.TLSAutocert{
			Enabled: true, HostWhitelist: []string{"a.example"}, CacheDir: acmeCache(t), DirectoryURL: "https://127.0.0.1:1/",
			HTTP: true, HTTPAddr: "127.0.0.1:0",
		}
	})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := tls.Dial("tcp", s.app.Addr("external"), &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, MaxVersion: version})
		if (err == nil) != (version >= oldest) {
			t.Errorf("version %x: %v", version, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	dial := func(listener string, protocols ...string) *tls.Conn {
		t.Helper()
		dialer := tls.Dialer{Config: &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, NextProtos: protocols}}
		conn, err := dialer.DialContext(t.Context(), "tcp", s.app.Addr(listener))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn.(*tls.Conn)
	}
	for _, tt := range []struct {
		listener, protocol string
		serial             int64
		answer             string
	}{
		{"external", "http/1.1", 7, "HTTP/1.1 404"}, {"internal", "http/1.1", 7, "HTTP/1.1 404"}, {"external", acme.ALPNProto, 9, ""}, {"internal", acme.ALPNProto, 9, ""},
	} {
		conn := dial(tt.listener, tt.protocol)
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != tt.serial {
			t.Errorf("%s: certificate %d, want %d", tt.protocol, got, tt.serial)
		}
		_, _ = io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n") // the answer counts
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), tt.answer) || tt.answer == "" && len(answer) > 0 {
			t.Errorf("%s: answer %s", tt.protocol, answer)
		}
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get("http://" + s.app.Addr("acme") + "/x")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusFound || !strings.HasPrefix(res.Header.Get("Location"), "https://127.0.0.1/x") {
		t.Errorf("redirect: %s to %s", res.Status, res.Header.Get("Location"))
	}
}

// TestBadTLS: a server does not start, and a check of the configuration says why as well.
func TestBadTLS(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		edit func(*config.HTTPServer)
		want string
	}{
		{func(h *config.HTTPServer) { h.TLS.Enabled = true }, "http_server.tls.cert_pem, key_pem: both are required"},
		{func(h *config.HTTPServer) { h.InternalTLS = certificate(1); h.InternalTLS.ClientCAPEM = "none" }, "http_server.internal_tls.client_ca_pem: "},
		{func(h *config.HTTPServer) { h.InternalTLS = certificate(1); h.InternalTLS.Autocert = true }, "http_server.internal_tls.autocert: needs"},
		{func(h *config.HTTPServer) { h.TLSAutocert.Enabled = true }, "http_server.tls_autocert.host_whitelist: "},
	} {
		cfg := testConfig(apart)
		tt.edit(&cfg.HTTPServer)
		_, err := New(cfg, Options{Logger: discard})
		for _, err := range []error{err, Check(cfg)} {
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		}
	}
	cfg := testConfig(nil)
	cfg.HTTPServer.TLSAutocert = config.TLSAutocert{Enabled: true, HostWhitelist: []string{"a.example"}, CacheDir: os.DevNull + "/x"}
	a := must(New(cfg, Options{Logger: discard}))
	if err := a.Start(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "http_server.tls_autocert.cache_dir: ") {
		t.Errorf("got %v", err)
	}
}
