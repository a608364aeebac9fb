package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/material"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

// signed is a certificate with its key.
type signed struct {
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
	pem, keys string
}

// sign makes a certificate; by is nil for one that signs itself.
func sign(t *testing.T, by *signed, name string, edit func(*x509.Certificate)) *signed {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(90 * 24 * time.Hour), Subject: pkix.Name{CommonName: name}}
	edit(template)
	out, parent, signer := &signed{key: key}, template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if out.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	out.keys = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	return out
}

func authority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
}

// loopback is a certificate of what listens on 127.0.0.1.
func loopback(c *x509.Certificate) {
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

func (s *signed) pair(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(s.pem), []byte(s.keys))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestCertificates: those that the server shows.
func TestCertificates(t *testing.T) {
	t.Parallel()
	root := sign(t, nil, "Root", authority)
	between := sign(t, root, "Between", authority)
	private := sign(t, nil, "Private", authority)
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	named := func(c *x509.Certificate) { c.DNSNames = []string{"rt.example.com"} }
	until := func(left time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			named(c)
			c.NotAfter = time.Now().Add(left)
		}
	}
	const key = "http_server.tls.cert_pem"
	const renew = "-> renew it, and set " + key
	for _, tt := range []struct {
		leaf  *signed
		chain string
		host  string
		ok    bool
		want  []string
	}{
		{sign(t, between, "x", named), between.pem, "rt.example.com", true, []string{"ok certificates: " + key + ": the certificate of rt.example.com is valid until "}},
		{sign(t, between, "x", named), "", "rt.example.com", true, []string{`warning certificates: ` + key + `: the chain of rt.example.com ends at "CN=Between"`, "append the intermediate certificates of the authority to " + key}},
		{sign(t, between, "x", named), between.pem, "example.com", false, []string{"problem certificates: " + key + ": clients that connect to example.com refuse the certificate, which is of rt.example.com"}},
		{sign(t, between, "x", until(10*24*time.Hour)), between.pem, "", true, []string{"warning certificates: " + key + ": the certificate of rt.example.com expires at ", renew}},
		{sign(t, between, "x", until(-time.Hour)), between.pem, "", false, []string{"problem certificates: " + key + ": the certificate of rt.example.com has expired at ", renew}},
		{sign(t, between, "x", func(c *x509.Certificate) { named(c); c.NotBefore = time.Now().Add(time.Hour) }), between.pem, "", false, []string{"the certificate of rt.example.com begins at ", "look at the clock of this machine"}},
		{sign(t, between, "rt.example.com", func(*x509.Certificate) {}), between.pem, "", true, []string{"warning certificates: " + key + ": the certificate of nobody (CN=rt.example.com) has no alternative names"}},
		{sign(t, nil, "Own", named), "", "", true, []string{`warning certificates: ` + key + `: the certificate of rt.example.com is signed by "CN=Own", which only clients accept that were told to`}},
		{sign(t, private, "x", named), private.pem, "", true, []string{`is signed by "CN=Private"`}},
	} {
		text, failed := examine(t, func(c *config.Config, o *Options) {
			o.Host, o.Roots = tt.host, roots
			c.HTTPServer.TLS.TLS = material.TLS{Enabled: true, CertPEM: material.PEM(tt.leaf.pem + tt.chain), KeyPEM: material.PEM(tt.leaf.keys)}
		})
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("not found: %s\n%s", want, text)
			}
		}
		if failed == tt.ok || strings.Contains(text, "PRIVATE") {
			t.Errorf("failed: %v\n%s", failed, text)
		}
	}
}

// TestBackendsOverTLS: those that the server asks, and the keys of identity providers.
func TestBackendsOverTLS(t *testing.T) {
	t.Parallel()
	ca, foreign := sign(t, nil, "CA", authority), sign(t, nil, "Foreign", authority)
	serve := func(leaf *signed) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/keys":
				_, _ = w.Write([]byte(`{"keys":[{"kty":"RSA","kid":"a","use":"sig","n":"` + strings.Repeat("w7Y0", 86) + `","e":"AQAB"}]}`))
			case "/empty":
				_, _ = w.Write([]byte(`{"keys":[]}`))
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{leaf.pair(t)}}
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	right := serve(sign(t, ca, "right", loopback))
	soon := serve(sign(t, ca, "soon", func(c *x509.Certificate) { loopback(c); c.NotAfter = time.Now().Add(time.Hour) }))
	expired := serve(sign(t, ca, "expired", func(c *x509.Certificate) { loopback(c); c.NotAfter = time.Now().Add(-time.Hour) }))
	other := serve(sign(t, ca, "other", func(c *x509.Certificate) { c.DNSNames = []string{"backend.example"} }))
	connect := func(endpoint string, by *signed) func(*config.Config, *Options) {
		return func(c *config.Config, _ *Options) {
			p := &c.Client.Proxy.Connect
			p.Enabled, p.Endpoint = true, endpoint
			p.HTTP.TLS = material.TLS{Enabled: true, ServerCAPEM: material.PEM(by.pem)}
			p.GRPC.TLS = p.HTTP.TLS
		}
	}
	keys := func(path string) func(*config.Config, *Options) {
		return func(c *config.Config, _ *Options) {
			j := &c.HTTPAPI.JWKS
			j.Enabled, j.Endpoint, j.TLS = true, right+path, material.TLS{Enabled: true, ServerCAPEM: material.PEM(ca.pem)}
		}
	}
	const key = "client.proxy.connect"
	for _, d := range []diagnosis{
		{"right", connect(right, ca), []string{"ok backends: " + key + ".endpoint: 127.0.0.1:"}, true},
		{"over gRPC", connect(strings.Replace(right, "https", "grpc", 1), ca), []string{"ok backends: " + key + ".endpoint: 127.0.0.1:", "accepts TLS connections"}, true},
		{"soon", connect(soon, ca), []string{"warning certificates: " + key + ".endpoint: the certificate of 127.0.0.1 expires at ", "its operator has to renew it"}, true},
		{"expired", connect(expired, ca), []string{"problem backends: " + key + ".endpoint: ", "expired", "-> renew the certificate of the other side"}, false},
		{"other name", connect(other, ca), []string{"problem backends: ", "-> correct " + key + ".http.tls.server_name"}, false},
		{"foreign", connect(right, foreign), []string{"problem backends: ", "-> correct " + key + ".http.tls.server_ca_pem"}, false},
		{"foreign over gRPC", connect(strings.Replace(right, "https", "grpc", 1), foreign), []string{"-> correct " + key + ".grpc.tls.server_ca_pem"}, false},
		{"plain", connect("https://"+strings.TrimPrefix(natstest.Start(t), "nats://"), ca), []string{"problem backends: ", key + ".http.tls.enabled"}, false},
		{"keys", keys("/keys"), []string{"ok tokens: http_api.jwks.endpoint: 1 keys"}, true},
		{"no keys", keys("/empty"), []string{"problem tokens: http_api.jwks.endpoint: ", "-> "}, false},
		{"nothing", keys("/"), []string{"problem tokens: http_api.jwks.endpoint: its keys cannot be fetched: status 404", "correct http_api.jwks.endpoint"}, false},
	} {
		d.run(t)
	}
}

// TestEnginesOverTLS: which key is to blame if a handshake fails.
func TestEnginesOverTLS(t *testing.T) {
	t.Parallel()
	ca, foreign := sign(t, nil, "CA", authority), sign(t, nil, "Foreign", authority)
	leaf := sign(t, ca, "leaf", loopback)
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	redis := redistest.Standalone(t, redistest.Options{TLS: &redistest.TLS{Cert: file("cert", leaf.pem), Key: file("key", leaf.keys), CA: file("ca", ca.pem)}})
	nats := natstest.StartWith(t, func(o *natsserver.Options) {
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{leaf.pair(t)}, MinVersion: tls.VersionTLS12}
	})
	by := func(ca *signed) material.TLS {
		return material.TLS{Enabled: true, ServerCAPEM: material.PEM(ca.pem), CertPEM: material.PEM(leaf.pem), KeyPEM: material.PEM(leaf.keys)}
	}
	for _, d := range []diagnosis{
		{"Redis", onRedis(redis.Addr(), func(r *engines.RedisEngine) { r.TLS = by(ca) }), []string{"ok redis: "}, true},
		{"Redis, foreign", onRedis(redis.Addr(), func(r *engines.RedisEngine) { r.TLS = by(foreign) }), []string{"problem redis: ", "correct engine.redis.tls.server_ca_pem\n"}, false},
		{"Redis, another name", onRedis(redis.Addr(), func(r *engines.RedisEngine) { r.TLS = by(ca); r.TLS.ServerName = "x" }), []string{"correct engine.redis.tls.server_name\n"}, false},
		{"NATS", func(c *config.Config, _ *Options) {
			c.Broker.Enabled, c.Broker.Type, c.Broker.NATS.URL, c.Broker.NATS.TLS = true, engines.TypeNATS, nats, by(ca)
		}, []string{"ok nats: "}, true},
		{"NATS, foreign", func(c *config.Config, _ *Options) {
			c.Broker.Enabled, c.Broker.Type, c.Broker.NATS.URL, c.Broker.NATS.TLS = true, engines.TypeNATS, nats, by(foreign)
		}, []string{"problem nats: ", "correct broker.nats.tls.server_ca_pem\n"}, false},
	} {
		d.run(t)
	}
}
