package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
)

// ca issues certificates.
type ca struct {
	t    *testing.T
	cert *x509.Certificate
	key  crypto.Signer
	pem  config.PEM
}

func newCA(t *testing.T) *ca {
	t.Helper()
	c := &ca{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err == nil {
		c.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.pem = text("CERTIFICATE", der)
	return c
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func text(kind string, der []byte) config.PEM {
	return config.PEM(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// issue makes a certificate with a serial number for hosts; edit changes its template.
func (c *ca) issue(serial int64, edit func(*x509.Certificate), hosts ...string) config.CertificatePair {
	return c.issueFor(newKey(c.t), serial, edit, hosts...)
}

func (c *ca) issueFor(key crypto.Signer, serial int64, edit func(*x509.Certificate), hosts ...string) config.CertificatePair {
	c.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "leaf"}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(500 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if edit != nil {
		edit(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, key.Public(), c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return config.CertificatePair{CertPEM: text("CERTIFICATE", der), KeyPEM: text("PRIVATE KEY", private)}
}

// pair returns a certificate for tls.Config.
func (c *ca) pair(p config.CertificatePair) tls.Certificate {
	c.t.Helper()
	out, err := tls.X509KeyPair([]byte(p.CertPEM), []byte(p.KeyPEM))
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// object returns an enabled TLS object with defaults and a certificate.
func object(p config.CertificatePair) config.ListenerTLS {
	t := config.DefaultConfig().HTTPServer.TLS
	t.Enabled, t.CertPEM, t.KeyPEM = true, p.CertPEM, p.KeyPEM
	return t
}

// newStore returns a store with its log.
func newStore(t *testing.T, autocert config.TLSAutocert) (*Store, *logtest.Buffer) {
	t.Helper()
	logs := new(logtest.Buffer)
	s, err := New(autocert, slog.New(slog.NewJSONHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, logs
}

// configOf returns the TLS of a listener as net/http uses it: a clone.
func configOf(t *testing.T, s *Store, section string, o config.ListenerTLS) *tls.Config {
	t.Helper()
	c, err := s.Config(section, o, Protocols...)
	if err != nil {
		t.Fatal(err)
	}
	return c.Clone()
}

// shake makes a handshake and returns what the client sees, and the error of the server, or
// else of the client.
func shake(server, client *tls.Config) (tls.ConnectionState, error) {
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		conn := buffer(ours)
		s := tls.Server(conn, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		close(conn.out)
		ended <- err
	}()
	conn := buffer(theirs)
	c := tls.Client(conn, client)
	_, err := c.Read(make([]byte, 1)) // which reads the session ticket, too
	theirs.Close()
	close(conn.out)
	if failed := <-ended; failed != nil {
		err = failed
	}
	return c.ConnectionState(), err
}

// buffered is the end of a net.Pipe whose Write does not wait for the other end.
type buffered struct {
	net.Conn
	out chan []byte // closed by the test: what is in it is still written, then the end is closed
}

func buffer(conn net.Conn) *buffered {
	b := &buffered{conn, make(chan []byte, 64)}
	go func() {
		for p := range b.out {
			_, _ = conn.Write(p) // who reads fails as well
		}
		conn.Close()
	}()
	return b
}

func (b *buffered) Write(p []byte) (int, error) {
	b.out <- bytes.Clone(p)
	return len(p), nil
}

// serialOf returns the serial number of the certificate that a client gets for a name; 0 if
// the handshake fails.
func serialOf(server *tls.Config, name string) int64 {
	state, err := shake(server, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		return 0
	}
	return state.PeerCertificates[0].SerialNumber.Int64()
}

func write(t *testing.T, file string, content config.PEM) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReload: files that change are in force after the period, or at once by Reload. A pair that
// cannot be used leaves the old one in force, and one line in the log with keys and files.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	synctest.Test(t, func(t *testing.T) {
		authority := newCA(t)
		put := func(c, k config.CertificatePair) { write(t, cert, c.CertPEM); write(t, key, k.KeyPEM) }
		one, two, three, four := authority.issue(1, nil), authority.issue(2, nil), authority.issue(3, nil), authority.issue(4, nil)
		put(one, one)
		s, logs := newStore(t, config.TLSAutocert{})
		server := configOf(t, s, "http_server.tls", object(config.CertificatePair{CertPEM: config.PEM(cert), KeyPEM: config.PEM(key)}))
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		synctest.Wait()
		const refused, taken = "cannot be used", "are in force"
		for _, step := range []struct {
			name   string
			change func()
			want   int64
			log    string
			fault  bool
		}{
			{"nothing", func() {}, 1, "", false},
			{"renewed", func() { put(two, two) }, 2, taken, false},
			{"certificate without its key", func() { put(three, two) }, 2, refused, true},
			{"still without", func() {}, 2, "", true},
			{"the key follows", func() { put(three, three) }, 3, taken, false},
			{"garbage", func() { write(t, key, "garbage") }, 3, refused, true},
			{"gone", func() { os.Remove(cert) }, 3, refused, true},
			{"still gone", func() {}, 3, "", true},
			{"back", func() { put(three, three) }, 3, taken, false},
			{"by Reload", func() { put(four, four); s.Reload() }, 4, taken, false},
		} {
			begin := time.Now()
			step.change()
			if step.name != "by Reload" {
				time.Sleep(period)
				synctest.Wait()
			} else if time.Since(begin) != 0 {
				t.Error("Reload took time")
			}
			if got := serialOf(server, "a.example"); got != step.want {
				t.Errorf("%s: certificate %d, want %d", step.name, got, step.want)
			}
			if got := s.Status(); len(got) != 1 || got[0].Key != "http_server.tls.cert_pem" || got[0].Refused != step.fault {
				t.Errorf("%s: the status is %+v, want refused: %v", step.name, got, step.fault)
			}
			line := logs.Take()
			if (step.log == "") != (line == "") || !strings.Contains(line, step.log) || strings.Count(line, "\n") > 1 {
				t.Errorf("%s: log %s", step.name, line)
			}
			if line != "" && (!strings.Contains(line, `"keys":"http_server.tls.cert_pem, http_server.tls.key_pem"`) || !strings.Contains(line, cert+", "+key)) {
				t.Errorf("%s: the log does not name keys and files: %s", step.name, line)
			}
		}
		cancel()
	})
}

// TestExpiry: a certificate that nobody renews is warned of once a day.
func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	begin := time.Now().Truncate(time.Second)
	s, logs := newStore(t, config.TLSAutocert{})
	configOf(t, s, "http_server.tls", object(newCA(t).issue(1, func(leaf *x509.Certificate) {
		leaf.NotBefore, leaf.NotAfter = begin, begin.Add(90*day)
	})))
	for now := begin; now.Before(begin.Add(93 * day)); now = now.Add(time.Hour) {
		s.refresh(now)
	}
	lines := logs.Take()
	if soon, expired := strings.Count(lines, "expires soon"), strings.Count(lines, "has expired"); soon != 15 || expired != 2 {
		t.Errorf("%d and %d warnings: %s", soon, expired, lines)
	}
	if !strings.Contains(lines, `"keys":"http_server.tls.cert_pem, http_server.tls.key_pem"`) {
		t.Errorf("the log does not name the keys: %s", lines)
	}
	if st := s.Status()[0]; !st.Expires.Equal(begin.Add(90*day)) || !st.RenewalDue.Equal(begin.Add(76*day)) || st.Refused {
		t.Errorf("the status is %+v", st)
	}
}

// TestStatus: each part of an object has a status, once, even if two listeners share the object.
func TestStatus(t *testing.T) {
	authority := newCA(t)
	s, _ := newStore(t, config.TLSAutocert{})
	o := object(authority.issue(1, nil))
	o.Certificates = []config.CertificatePair{authority.issue(2, nil)}
	o.ClientCAPEM, o.TicketSecret = authority.pem, secretOne
	for range 2 {
		configOf(t, s, "http_server.tls", o)
	}
	var keys []string
	for _, st := range s.Status() {
		keys = append(keys, st.Key)
		if certificate := strings.HasSuffix(st.Key, "cert_pem"); st.Refused || st.Expires.IsZero() == certificate {
			t.Errorf("%+v", st)
		}
	}
	want := []string{"http_server.tls.cert_pem", "http_server.tls.certificates[0].cert_pem", "http_server.tls.client_ca_pem", "http_server.tls.session_ticket_secret"}
	if !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}

// TestNames: the certificate depends on the name and on what the client can verify.
func TestNames(t *testing.T) {
	authority := newCA(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newStore(t, config.TLSAutocert{})
	o := object(authority.issue(1, nil, "a.example"))
	o.Certificates = []config.CertificatePair{
		authority.issue(2, nil, "b.example", "c.example"), authority.issue(3, nil, "*.d.example"),
		authority.issueFor(rsaKey, 4, nil, "a.example"), authority.issue(5, nil, "b.example"),
	}
	server := configOf(t, s, "http_server.tls", o)
	for name, want := range map[string]int64{
		"a.example": 1, "A.EXAMPLE": 1, "b.example": 2, "c.example": 2, "x.d.example": 3, "d.example": 1, "x.y.d.example": 1, "other.example": 1, "": 1,
	} {
		if got := serialOf(server, name); got != want {
			t.Errorf("%q: certificate %d, want %d", name, got, want)
		}
	}
	state, err := shake(server, &tls.Config{
		ServerName: "a.example", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
	})
	if err != nil || state.PeerCertificates[0].SerialNumber.Int64() != 4 {
		t.Errorf("a client without ECDSA: %v", err)
	}
}

// TestClientCertificates: who is refused, with which line in the log, also after the authority
// has changed, and also with a session from before.
func TestClientCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	ours, theirs := newCA(t), newCA(t)
	write(t, file, ours.pem)
	s, logs := newStore(t, config.TLSAutocert{})
	o := object(ours.issue(1, nil, "a.example"))
	o.ClientCAPEM, o.TicketSecret = config.PEM(file), secretOne
	server := configOf(t, s, "http_server.internal_tls", o)
	good, foreign := ours.pair(ours.issue(2, nil)), theirs.pair(theirs.issue(3, nil))
	expired := ours.pair(ours.issue(4, func(leaf *x509.Certificate) { leaf.NotAfter = time.Now().Add(-time.Minute) }))
	forServers := ours.pair(ours.issue(5, func(leaf *x509.Certificate) { leaf.ExtKeyUsage = leaf.ExtKeyUsage[:1] }))
	client := func(cert *tls.Certificate) *tls.Config {
		return &tls.Config{
			ServerName: "a.example", InsecureSkipVerify: true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil },
		}
	}
	for _, tt := range []struct {
		name string
		cert *tls.Certificate
		want string
	}{
		{"none", &tls.Certificate{}, "shows no certificate"}, {"good", &good, ""}, {"foreign", &foreign, "of another authority"},
		{"expired", &expired, "has expired"}, {"for servers", &forServers, "not one for clients"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			c := client(tt.cert)
			c.MaxVersion = version
			_, err := shake(server, c)
			if (err == nil) != (tt.want == "") {
				t.Errorf("%s: %v", tt.name, err)
			}
			if err == nil {
				continue
			}
			key, reason := refusal.Explain(Refusal("http_server.internal_tls", err.Error()))
			if key != "http_server.internal_tls.client_ca_pem" || !strings.Contains(reason, tt.want) {
				t.Errorf("%s: %v is explained by %s: %s", tt.name, err, key, reason)
			}
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		write(t, file, ours.pem)
		s.Reload()
		c := client(&good)
		c.MaxVersion, c.ClientSessionCache = version, &oneSession{}
		for _, resumed := range []bool{false, true} {
			if state, err := shake(server, c); err != nil || state.DidResume != resumed {
				t.Fatalf("%v, resumed %v", err, state.DidResume)
			}
		}
		write(t, file, theirs.pem)
		s.Reload()
		if line := logs.Take(); !strings.Contains(line, `"keys":"http_server.internal_tls.client_ca_pem"`) {
			t.Errorf("log: %s", line)
		}
		if state, err := shake(server, c); err == nil {
			t.Errorf("a client of the authority from before is let in, resumed: %v", state.DidResume)
		}
		if _, err := shake(server, client(&foreign)); err != nil {
			t.Error(err)
		}
	}
}

// TestMinVersion: TLS 1.2 by default, and nothing below it ever.
func TestMinVersion(t *testing.T) {
	authority := newCA(t)
	s, _ := newStore(t, config.TLSAutocert{})
	o := object(authority.issue(1, nil, "a.example"))
	byDefault := configOf(t, s, "http_server.tls", o)
	o.MinVersion = "1.3"
	strict := configOf(t, s, "uni_grpc.tls", o)
	for _, tt := range []struct {
		server  *tls.Config
		version uint16
		refused bool
	}{
		{byDefault, tls.VersionTLS11, true}, {byDefault, tls.VersionTLS12, false}, {byDefault, tls.VersionTLS13, false},
		{strict, tls.VersionTLS12, true}, {strict, tls.VersionTLS13, false},
	} {
		state, err := shake(tt.server, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tt.version, NextProtos: []string{"h2"}})
		if (err != nil) != tt.refused || err == nil && (state.Version != tt.version || state.NegotiatedProtocol != "h2") {
			t.Errorf("version %x: %v", tt.version, err)
		}
		if err != nil {
			if key, _ := refusal.Explain(Refusal("uni_grpc.tls", err.Error())); key != "uni_grpc.tls.min_version" {
				t.Errorf("%v is explained by %s", err, key)
			}
		}
	}
	if err := Refusal("a", errors.New("EOF").Error()); err != nil {
		t.Errorf("a broken connection is explained by %v", err)
	}
}

// TestBadConfiguration: what is wrong is named by its key, and no secret is quoted.
func TestBadConfiguration(t *testing.T) {
	dir := t.TempDir()
	short, many := filepath.Join(dir, "short"), filepath.Join(dir, "many")
	write(t, short, "hush\n")
	write(t, many, config.PEM(strings.Repeat(secretOne+"\n", maxSecrets+1)))
	authority := newCA(t)
	one, two := authority.issue(1, nil), authority.issue(2, nil)
	for i, tt := range []struct {
		edit func(*config.ListenerTLS)
		want string
	}{
		{func(o *config.ListenerTLS) { o.CertPEM, o.KeyPEM = "", "" }, "uni_grpc.tls.cert_pem, key_pem: both are required"},
		{func(o *config.ListenerTLS) { o.KeyPEM = "" }, "uni_grpc.tls.cert_pem, key_pem: both are required"},
		{func(o *config.ListenerTLS) { o.CertPEM = "hush-hush" }, "uni_grpc.tls.cert_pem: neither PEM text"},
		{func(o *config.ListenerTLS) { o.KeyPEM = "hush-hush" }, "uni_grpc.tls.key_pem: neither PEM text"},
		{func(o *config.ListenerTLS) { o.KeyPEM = two.KeyPEM }, "uni_grpc.tls.cert_pem, key_pem: tls: private key does not match"},
		{func(o *config.ListenerTLS) { o.Certificates = []config.CertificatePair{two, {}} }, "uni_grpc.tls.certificates[1].cert_pem, certificates[1].key_pem: both"},
		{func(o *config.ListenerTLS) {
			o.Certificates = []config.CertificatePair{{CertPEM: "hush-hush", KeyPEM: two.KeyPEM}}
		}, "uni_grpc.tls.certificates[0].cert_pem: neither"},
		{func(o *config.ListenerTLS) { o.Certificates = make([]config.CertificatePair, 256) }, "uni_grpc.tls.certificates: 256 are more than 255"},
		{func(o *config.ListenerTLS) { o.ClientCAPEM = "hush-hush" }, "uni_grpc.tls.client_ca_pem: neither"},
		{func(o *config.ListenerTLS) { o.ClientCAPEM = one.KeyPEM }, "uni_grpc.tls.client_ca_pem: there is no certificate"},
		{func(o *config.ListenerTLS) { o.Autocert = true }, "uni_grpc.tls.autocert: needs http_server.tls_autocert.enabled"},
		{func(o *config.ListenerTLS) { o.TicketSecret = "hush" }, "uni_grpc.tls.session_ticket_secret: secret 1 has 4 bytes"},
		{func(o *config.ListenerTLS) { o.TicketSecretFile = short }, "uni_grpc.tls.session_ticket_secret_file: secret 1 has 4 bytes"},
		{func(o *config.ListenerTLS) { o.TicketSecretFile = many }, "uni_grpc.tls.session_ticket_secret_file: there are more than 4 secrets"},
		{func(o *config.ListenerTLS) { o.TicketSecretFile = os.DevNull }, "uni_grpc.tls.session_ticket_secret_file: there is no secret"},
		{func(o *config.ListenerTLS) { o.TicketSecretFile = filepath.Join(dir, "none") }, "uni_grpc.tls.session_ticket_secret_file: open"},
		{func(o *config.ListenerTLS) { o.TicketSecret, o.TicketSecretFile = secretOne, many }, "uni_grpc.tls.session_ticket_secret_file: excludes session_ticket_secret"},
	} {
		s, _ := newStore(t, config.TLSAutocert{})
		o := object(one)
		tt.edit(&o)
		_, err := s.Config("uni_grpc.tls", o, "h2")
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%d: %v", i, err)
		}
		o.Enabled = false
		if c, err := s.Config("uni_grpc.tls", o, "h2"); c != nil || err != nil {
			t.Errorf("%d, not enabled: %v %v", i, c, err)
		}
	}
	for i, tt := range []struct {
		edit func(*config.TLSAutocert)
		want string
	}{
		{func(a *config.TLSAutocert) { a.HostWhitelist = nil }, "host_whitelist: has 0 hosts"},
		{func(a *config.TLSAutocert) { a.HostWhitelist = make([]string, 257) }, "host_whitelist: has 257 hosts"},
		{func(a *config.TLSAutocert) { a.HostWhitelist = []string{"a.example", "*.example"} }, "host_whitelist: item 1: is not the full name"},
		{func(a *config.TLSAutocert) { a.HostWhitelist = []string{"localhost"} }, "host_whitelist: item 0: is not the full name"},
		{func(a *config.TLSAutocert) { a.HostWhitelist = []string{"127.0.0.1"} }, "host_whitelist: item 0: is not the full name"},
		{func(a *config.TLSAutocert) { a.ServerName = "b.example" }, "server_name: is not in host_whitelist"},
		{func(a *config.TLSAutocert) { a.HTTP, a.HTTPAddr = true, "80" }, "http_addr: "},
		{func(a *config.TLSAutocert) { a.DirectoryURL = "http://acme.example" }, "directory_url: is not an https:// URL"},
		{func(a *config.TLSAutocert) { a.DirectoryCAPEM = one.KeyPEM }, "directory_ca_pem: there is no certificate"},
	} {
		a := autocertOf("a.example")
		tt.edit(&a)
		_, err := New(a, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), "http_server.tls_autocert."+tt.want) {
			t.Errorf("%d: %v", i, err)
		}
	}
	a := autocertOf("a.example")
	a.CacheDir = filepath.Join(short, "below")
	s, _ := newStore(t, a)
	if err := s.PrepareCache(); err == nil || !strings.HasPrefix(err.Error(), "http_server.tls_autocert.cache_dir: ") {
		t.Error(err)
	}
	o := object(one)
	o.Autocert = true
	if _, err := s.Config("uni_grpc.tls", o); err == nil || !strings.HasPrefix(err.Error(), "uni_grpc.tls.autocert: excludes cert_pem") {
		t.Error(err)
	}
}

// autocertOf returns an enabled section for hosts.
func autocertOf(hosts ...string) config.TLSAutocert {
	a := config.DefaultConfig().HTTPServer.TLSAutocert
	a.Enabled, a.HostWhitelist = true, hosts
	return a
}
