package nats

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

func isDenied(err error) bool { return errors.Is(err, protocol.ErrorPermissionDenied) }

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"URL":             {URL: "redis://u:hunter2@h"},
		"not a URL":       {URL: "nats://u:hunter2@h:port"},
		"empty":           {URL: "nats://u:hunter2@h,"},
		"no host":         {URL: "nats://u:hunter2@"},
		"Prefix":          {Prefix: "a b"},
		"256":             {Prefix: strings.Repeat("x", 257)},
		"DialTimeout":     {DialTimeout: -1},
		"WriteTimeout":    {WriteTimeout: -1},
		"RequestTimeout":  {RequestTimeout: -1},
		"StartTimeout":    {StartTimeout: -1},
		"1048576":         {PendingBytes: 1},
		"User":            {User: "u"},
		"exclude":         {User: "u", Password: "hunter2", Token: "hunter2"},
		"CredentialsFile": {CredentialsFile: "/none"},
		"Raw.Prefix":      {Raw: RawMode{Enabled: true, Prefix: "a.*."}},
		"Replacements":    {Raw: RawMode{Replacements: map[string]string{"": "x"}}},
	} {
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret in %v", name, err)
		}
	}
	b := newBroker(t, Config{URL: "u:p@one:1, nats://token@two:2"})
	if b.part != "nats (one:1, two:2)" || b.cfg.Prefix != "gyro" || b.Broker() != b {
		t.Error(b.part, b.cfg.Prefix)
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	port, err := porttest.Free()
	must(t, err)
	cfg := Config{URL: fmt.Sprintf("nats://u:hunter2@127.0.0.1:%d", port)}
	err = newBroker(t, cfg).Run(ignore{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("127.0.0.1:", port)) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("nobody there: %v", err)
	}
	cfg.StartTimeout = time.Minute
	b := newBroker(t, cfg)
	started := make(chan error)
	go func() { started <- b.Run(ignore{}) }()
	wait.Until(t, "an attempt", func() bool { return b.dialer.number.Load() > 0 })
	startServer(t, &server.Options{Port: port})
	must(t, <-started)
	must(t, b.Close(t.Context()))

	// Close ends the waiting.
	cfg.URL = "nats://127.0.0.1:1"
	b = newBroker(t, cfg)
	go func() { started <- b.Run(ignore{}) }()
	wait.Until(t, "an attempt", func() bool { return b.dialer.number.Load() > 0 })
	must(t, b.Close(t.Context()))
	if err := <-started; !errors.Is(err, errClosed) {
		t.Errorf("closed: %v", err)
	}

	// Somebody there who says nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	start := time.Now()
	err = newBroker(t, Config{URL: "nats://" + l.Addr().String(), DialTimeout: 100 * time.Millisecond}).Run(ignore{})
	if d := time.Since(start); err == nil || d > wait.Limit {
		t.Errorf("silence: %v after %v", err, d)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := startServer(t, &server.Options{Username: "u", Password: "hunter2"})
	withToken := startServer(t, &server.Options{Authorization: "hunter2"})
	url := func(s *server.Server, who string) string { return "nats://" + who + s.Addr().String() }
	for name, tt := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"none":          {Config{URL: url(s, "")}, false},
		"URL":           {Config{URL: url(s, "u:hunter2@")}, true},
		"wrong URL":     {Config{URL: url(s, "u:hunter3@")}, false},
		"options":       {Config{URL: url(s, ""), User: "u", Password: "hunter2"}, true},
		"wrong options": {Config{URL: url(s, ""), User: "u", Password: "hunter3"}, false},
		"URL token":     {Config{URL: url(withToken, "hunter2@")}, true},
		"token":         {Config{URL: url(withToken, ""), Token: "hunter2"}, true},
		"wrong token":   {Config{URL: url(withToken, ""), Token: "hunter3"}, false},
	} {
		b := newBroker(t, tt.cfg)
		err := b.Run(ignore{})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (!strings.Contains(strings.ToLower(err.Error()), "authorization") || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, b.Close(t.Context()))
	}
}

// selfSigned makes a certificate for 127.0.0.1 and those who trust it.
func selfSigned(t testing.TB) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, pool := selfSigned(t)
	s := startServer(t, &server.Options{TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, TLSTimeout: 5})
	plain := startServer(t, nil)
	for name, tt := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"trusted":        {Config{URL: "nats://" + s.Addr().String(), TLS: &tls.Config{RootCAs: pool}}, true},
		"tls scheme":     {Config{URL: "tls://" + s.Addr().String(), TLS: &tls.Config{RootCAs: pool}}, true},
		"not trusted":    {Config{URL: "tls://" + s.Addr().String()}, false},
		"another's name": {Config{URL: "nats://" + s.Addr().String(), TLS: &tls.Config{RootCAs: pool, ServerName: "other"}}, false},
		"plain server":   {Config{URL: "nats://" + plain.Addr().String(), TLS: &tls.Config{RootCAs: pool}}, false},
	} {
		tt.cfg.DialTimeout = 5 * time.Second
		got := newEvents()
		b := newBroker(t, tt.cfg)
		err := b.Run(got)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			must(t, b.Subscribe(t.Context(), "a"))
			must(t, publish(b, "a", "1"))
			got.next(t, "publication")
			b.dialer.cut(errors.New("test"))
			got.next(t, "loss")
			must(t, publish(b, "a", "2"))
			got.next(t, "publication")
		}
		must(t, b.Close(t.Context()))
	}
}
