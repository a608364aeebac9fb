package certs

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
)

// fakeACME is an authority that answers as a test says, in place of autocert.
type fakeACME struct {
	took time.Duration // of an order

	mu     sync.Mutex
	cert   tls.Certificate
	err    error
	orders []time.Duration // when it was asked, after begin
	begin  time.Time
}

func (f *fakeACME) obtain(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	f.orders = append(f.orders, time.Since(f.begin))
	f.mu.Unlock()
	time.Sleep(f.took)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	cert := f.cert
	return &cert, nil
}

func (f *fakeACME) set(cert tls.Certificate, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cert, f.err = cert, err
}

// withACME returns a store with a fake authority for one host, a.example.
func withACME(t *testing.T, f *fakeACME, edit func(*config.TLSAutocert)) (*Store, *logtest.Buffer, *tls.Config) {
	t.Helper()
	a := autocertOf("a.example")
	if edit != nil {
		edit(&a)
	}
	s, logs := newStore(t, a)
	s.authority.obtain = f.obtain
	f.begin = time.Now()
	o := object(config.CertificatePair{})
	o.Autocert = true
	return s, logs, configOf(t, s, "http_server.tls", o)
}

// TestFirstCertificate: it is ordered when the server starts. One handshake waits for it, the
// others fail at once, so that there is room for the challenge.
func TestFirstCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeACME{took: 5 * time.Second}
		f.set(func() tls.Certificate { c := newCA(t); return c.pair(c.issue(7, nil, "a.example")) }(), nil)
		s, logs, server := withACME(t, f, nil)
		go s.Run(t.Context())
		waited := make(chan int64, 1)
		go func() { waited <- serialOf(server, "a.example") }()
		synctest.Wait()
		if got := serialOf(server, "a.example"); got != 0 || time.Since(f.begin) != 0 {
			t.Errorf("a second handshake: certificate %d after %s", got, time.Since(f.begin))
		}
		if got := <-waited; got != 7 || time.Since(f.begin) != f.took {
			t.Errorf("the first handshake: certificate %d after %s", got, time.Since(f.begin))
		}
		if lines := logs.Take(); !strings.Contains(lines, `"host":"a.example"`) {
			t.Errorf("log: %s", lines)
		}
		// A renewed one is taken over, without waiting and without an order of its own.
		f.set(func() tls.Certificate { c := newCA(t); return c.pair(c.issue(8, nil, "a.example")) }(), nil)
		time.Sleep(2 * period)
		synctest.Wait()
		if got := serialOf(server, "a.example"); got != 8 {
			t.Errorf("after the renewal: certificate %d", got)
		}
	})
}

// TestFailedOrders: attempts become rare, SIGHUP makes one at once, and handshakes do not
// make any.
func TestFailedOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeACME{}
		f.set(tls.Certificate{}, errors.New("no such domain"))
		s, logs, server := withACME(t, f, nil)
		go s.Run(t.Context())
		for range 40 {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if _, err := shake(server, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}); !errors.Is(err, errNotObtained) {
				t.Fatal(err)
			}
		}
		var minutes []int
		for _, at := range f.orders {
			minutes = append(minutes, int(at.Round(time.Minute)/time.Minute))
		}
		if want := []int{0, 2, 6, 14, 30, 62, 122, 182, 242, 302, 362}; !slices.Equal(minutes, want) {
			t.Errorf("attempts after minutes %v, want %v", minutes, want)
		}
		if lines := logs.Take(); strings.Count(lines, "\n") != len(f.orders) || !strings.Contains(lines, `"key":"http_server.tls_autocert","host":"a.example","error":"no such domain","retry_in_ms":120000`) {
			t.Errorf("log: %s", lines)
		}
		f.set(func() tls.Certificate { c := newCA(t); return c.pair(c.issue(7, nil, "a.example")) }(), nil)
		s.Reload()
		synctest.Wait()
		if got := serialOf(server, "a.example"); got != 7 {
			t.Errorf("after Reload: certificate %d", got)
		}
	})
}

// TestHosts: which names get a certificate, and why others do not.
func TestHosts(t *testing.T) {
	authority := newCA(t)
	for _, serverName := range []string{"", "A.example."} {
		f := &fakeACME{}
		f.set(authority.pair(authority.issue(7, nil)), nil)
		s, _, server := withACME(t, f, func(a *config.TLSAutocert) {
			a.ServerName, a.HostWhitelist = serverName, []string{"a.example", "B\u00fccher.example."}
		})
		for _, h := range s.authority.hosts {
			s.authority.ask(h)
		}
		for name, key := range map[string]string{
			"a.example": "", "A.Example": "", "xn--bcher-kva.example": "", "b.example": "host_whitelist", "a": "host_whitelist", "": "server_name",
		} {
			if name == "" && serverName != "" {
				key = ""
			}
			_, err := shake(server, &tls.Config{ServerName: name, InsecureSkipVerify: true})
			if (err == nil) != (key == "") {
				t.Errorf("%q: %v", name, err)
			}
			if err == nil {
				continue
			}
			if got, _ := refusal.Explain(Refusal("http_server.tls", err.Error())); got != "http_server.tls_autocert."+key {
				t.Errorf("%q: %v is explained by %s", name, err, got)
			}
		}
	}
}

// TestChallenge: the authority gets its answer without a client certificate, and with TLS 1.3
// required; nothing else does.
func TestChallenge(t *testing.T) {
	authority := newCA(t)
	f := &fakeACME{}
	f.set(authority.pair(authority.issue(7, nil, "a.example")), nil)
	s, _ := newStore(t, autocertOf("a.example"))
	s.authority.obtain = f.obtain
	token := authority.pair(authority.issue(9, nil, "a.example"))
	s.authority.token = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &token, nil }
	s.authority.ask(s.authority.hosts["a.example"])
	o := object(config.CertificatePair{})
	o.Autocert, o.ClientCAPEM, o.MinVersion = true, authority.pem, "1.3"
	server := configOf(t, s, "http_server.tls", o)
	for _, tt := range []struct {
		protocols []string
		want      int64
	}{{[]string{acme.ALPNProto}, 9}, {[]string{"h2", acme.ALPNProto}, 0}, {nil, 0}} {
		state, err := shake(server, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, NextProtos: tt.protocols})
		var got int64
		if err == nil {
			got = state.PeerCertificates[0].SerialNumber.Int64()
		}
		if got != tt.want {
			t.Errorf("%v: certificate %d, %v", tt.protocols, got, err)
		}
	}
}

// TestChallengesOverHTTP: other requests are redirected, tokens are given to hosts of the list
// alone, and a port in Host does not matter.
func TestChallengesOverHTTP(t *testing.T) {
	a := autocertOf("a.example")
	if s, _ := newStore(t, a); s.Challenges() != nil {
		t.Error("there is a handler that nobody asked for")
	}
	a.HTTP = true
	s, _ := newStore(t, a)
	for _, tt := range []struct {
		method, url string
		status      int
		location    string
	}{
		{"GET", "http://a.example/x?y=1", 302, "https://a.example/x?y=1"},
		{"GET", "http://a.example:8080/x", 302, "https://a.example/x"},
		{"POST", "http://a.example/x", 400, ""},
		{"GET", "http://a.example:8080/.well-known/acme-challenge/t", 404, ""},
		{"GET", "http://b.example/.well-known/acme-challenge/t", 403, ""},
	} {
		w := httptest.NewRecorder()
		s.Challenges().ServeHTTP(w, httptest.NewRequest(tt.method, tt.url, http.NoBody))
		if w.Code != tt.status || w.Header().Get("Location") != tt.location {
			t.Errorf("%s %s: %d %s", tt.method, tt.url, w.Code, w.Header().Get("Location"))
		}
	}
}
