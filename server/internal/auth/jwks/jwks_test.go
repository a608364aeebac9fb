package jwks

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/httpmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const at = "https://idp.example/certs"

// member is a key of a set in the form that a provider writes it.
func member(id string, public crypto.PublicKey, more ...string) map[string]string {
	b64 := base64.RawURLEncoding.EncodeToString
	m := map[string]string{"kid": id, "use": "sig"}
	switch k := public.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		size := len(point) / 2
		m["kty"], m["crv"], m["x"], m["y"] = "EC", k.Params().Name, b64(point[1:1+size]), b64(point[1+size:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", b64(k)
	}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

func document(members ...map[string]string) string {
	text, err := json.Marshal(map[string]any{"keys": members})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func edKey(seed byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)).Public().(ed25519.PublicKey)
}

// provider answers requests in the bubble of a test.
type provider struct {
	mu       sync.Mutex
	set      string
	status   int
	takes    time.Duration
	fails    func(n int) error
	requests []time.Time
}

func (p *provider) RoundTrip(q *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.requests = append(p.requests, time.Now())
	status, set, takes, fails, n := p.status, p.set, p.takes, p.fails, len(p.requests)
	p.mu.Unlock()
	if fails != nil {
		return nil, fails(n)
	}
	select {
	case <-time.After(takes):
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
	return &http.Response{StatusCode: max(status, 200), Body: io.NopCloser(strings.NewReader(set))}, nil
}

func (p *provider) answer(status int, set string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.set = status, set
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// bubble runs a test with virtual time, and an endpoint whose requests p answers.
func bubble(t *testing.T, test func(t *testing.T, p *provider, e *Endpoint, log func() string)) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := logging.Wrap(slog.New(slog.NewJSONHandler(&out, nil)))
		c := NewCache(log)
		defer c.Close()
		e, err := c.Endpoint("client.token.jwks_public_endpoint", config.TLS{})
		if err != nil {
			t.Fatal(err)
		}
		p := &provider{set: document(member("a", edKey(1)))}
		e.client.Transport = p
		test(t, p, e, func() string {
			_ = logging.Flush(log)
			return out.String()
		})
	})
}

func want(t *testing.T, e *Endpoint, kid string, failure error) {
	t.Helper()
	if _, err := e.Key(t.Context(), at, kid, "EdDSA"); !errors.Is(err, failure) {
		t.Fatalf("key %s: error %v, want %v", kid, err, failure)
	}
}

// Whoever needs a new key gets it, by few requests: one for all who wait, and one per Interval.
func TestRotationInAStorm(t *testing.T) {
	bubble(t, func(t *testing.T, p *provider, e *Endpoint, _ func() string) {
		p.takes = 300 * time.Millisecond
		var failed atomic.Int64
		var wg sync.WaitGroup
		storm := func(n int, kid string, failure error) {
			for range n {
				wg.Go(func() {
					if _, err := e.Key(t.Context(), at, kid, "EdDSA"); !errors.Is(err, failure) {
						failed.Add(1)
					}
				})
			}
		}
		storm(2000, "a", nil)
		time.Sleep(100 * time.Millisecond)
		// The request under way brings the old set, as it was sent before the rotation.
		p.answer(200, document(member("a", edKey(1)), member("b", edKey(2))))
		storm(2000, "b", nil)
		storm(1000, "forged", ErrUnknown)
		begin := time.Now()
		wg.Wait()
		if took := time.Since(begin); failed.Load() > 0 || took > Interval+time.Second {
			t.Errorf("%d of 5000 failed, within %s", failed.Load(), took)
		}
		if n := p.count(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		// A key that is known needs no request, also while others ask for forged ones.
		for range 20 {
			storm(10, "forged", ErrUnknown)
			time.Sleep(500 * time.Millisecond)
			before := time.Now()
			want(t, e, "b", nil)
			if time.Since(before) > 0 {
				t.Error("a known key waited")
			}
		}
		wg.Wait()
		for i, at := range p.requests[1:] {
			if since := at.Sub(p.requests[i]); since < Interval {
				t.Errorf("requests %d and %d are %s apart", i, i+1, since)
			}
		}
	})
}

// Keys stay in use while the endpoint fails, and for KeepFor at most; the log tells once.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T, p *provider, e *Endpoint, log func() string) {
		want(t, e, "a", nil)
		p.answer(500, "")
		time.Sleep(RenewAfter)
		for range 10 {
			want(t, e, "a", nil)
			time.Sleep(time.Second)
		}
		if n := p.count(); n != 1+attempts {
			t.Errorf("%d requests, want one fetch more than the first", n)
		}
		want(t, e, "b", ErrUnavailable)
		p.answer(200, `{"keys":[]}`)
		time.Sleep(time.Hour)
		want(t, e, "b", ErrUnavailable)
		want(t, e, "a", nil)
		time.Sleep(KeepFor - 2*time.Hour - time.Minute)
		want(t, e, "a", nil)
		time.Sleep(time.Minute)
		want(t, e, "a", ErrUnavailable)
		p.answer(200, document(member("b", edKey(2))))
		time.Sleep(time.Hour)
		want(t, e, "b", nil)
		want(t, e, "a", ErrUnknown) // the provider has withdrawn it
		text := log()
		if strings.Count(text, "status 500") != 1 || strings.Contains(text, "no usable key") || strings.Count(text, "is fetched again") != 1 ||
			!strings.Contains(text, `"key":"client.token.jwks_public_endpoint"`) {
			t.Error(text)
		}
	})
}

// A key that was withdrawn is not accepted for longer than RenewAfter after the next lookup.
func TestRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, p *provider, e *Endpoint, _ func() string) {
		e.Prefetch(at)
		e.Prefetch(at)
		synctest.Wait()
		want(t, e, "a", nil)
		e.Prefetch(at)
		p.answer(200, document(member("b", edKey(2))))
		time.Sleep(RenewAfter)
		want(t, e, "a", nil) // it begins the fetch, and does not wait
		synctest.Wait()
		want(t, e, "b", nil)
		want(t, e, "a", ErrUnknown)
	})
}

func TestWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T, p *provider, e *Endpoint, _ func() string) {
		p.takes = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := e.Key(ctx, at, "a", "EdDSA"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		begin := time.Now()
		want(t, e, "a", ErrUnavailable)
		if took := time.Since(begin); took > Interval+2*attempts*Timeout {
			t.Errorf("waited %s", took)
		}
		waits := make(chan error)
		go func() {
			_, err := e.Key(context.Background(), at, "a", "EdDSA")
			waits <- err
		}()
		synctest.Wait()
		e.cache.Close()
		if err := <-waits; !errors.Is(err, errClosed) && !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		if _, err := e.Key(t.Context(), at, "c", "EdDSA"); err == nil {
			t.Error(err)
		}
	})
}

// A cache has room for a number of sets. It forgets those without keys first, then those not used for
// longest, and none that is being fetched.
func TestFull(t *testing.T) {
	bubble(t, func(t *testing.T, p *provider, e *Endpoint, _ func() string) {
		const most = 3 * maxFetches
		if e.cache.limit != maxSets {
			t.Errorf("%d sets, want %d", e.cache.limit, maxSets)
		}
		e.cache.limit = most
		want(t, e, "a", nil)
		time.Sleep(time.Second)
		p.answer(404, "")
		urls := 1
		for ; urls < 2*most; urls++ {
			if _, err := e.Key(t.Context(), fmt.Sprint(at, urls), "a", "EdDSA"); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if n := len(e.cache.sets); n != most {
			t.Errorf("%d sets", n)
		}
		want(t, e, "a", nil)
		p.takes = time.Hour
		for i := range most {
			e.Prefetch(fmt.Sprint(at, "slow", i))
		}
		if _, err := e.Key(t.Context(), at+"more", "a", "EdDSA"); !errors.Is(err, errFull) {
			t.Error(err)
		}
		e.cache.Close()
		synctest.Wait()
	})
}

// What real servers may answer, and what the log says then. The keys that are known stay in use.
func TestEndpoints(t *testing.T) {
	good := document(member("a", edKey(1)))
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	tests := map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"500":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500"},
		"204":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "status 204"},
		"redirect":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "status 302: redirects are not followed"},
		"HTML":      {text("<html>"), "not the JSON object of a JWKS"},
		"empty":     {text(""), "not the JSON object of a JWKS"},
		"empty set": {text(`{"keys":[]}`), `no usable key with "use": "sig" and a kid`},
		"no set":    {text(`{}`), "no usable key"},
		"huge body": {text(strings.Repeat(" ", maxBody) + good), "longer than 1048576 bytes"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			w.Write([]byte("{"))
		}, "unexpected EOF"},
		"no answer":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer within 1s"},
		"slow body":     {func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); <-r.Context().Done() }, "the answer is not complete within 1s"},
		"broken key":    {text(document(member("a", nil, "kty", "RSA", "n", "!"))), "keys[0]: n or e is not base64url"},
		"without a use": {text(document(member("a", edKey(1), "use", ""))), "no usable key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var works atomic.Bool
			serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/other":
					t.Error("a redirect was followed")
				case works.Load():
					_, _ = io.WriteString(w, good)
				default:
					tt.answer(w, r)
				}
			}, func(t *testing.T, e *Endpoint) {
				const at = "http://idp.example/certs?secret=1"
				if _, _, err := e.fetch(t.Context(), at); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				works.Store(true)
				if _, err := e.Key(t.Context(), at, "a", "EdDSA"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// serve runs a test with virtual time and an endpoint whose server is in memory.
func serve(t *testing.T, answer http.HandlerFunc, test func(t *testing.T, e *Endpoint)) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(slog.New(slog.DiscardHandler))
		defer c.Close()
		c.Dial = httpmem.Serve(t, answer)
		e, err := c.Endpoint("k", config.TLS{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, e)
	})
}

// A second attempt follows a failure at once.
func TestAttempts(t *testing.T) {
	n := 0
	serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, document(member("a", edKey(1))))
	}, func(t *testing.T, e *Endpoint) {
		begin := time.Now()
		if _, err := e.Key(t.Context(), "http://idp.example", "a", "EdDSA"); err != nil || n != attempts || time.Since(begin) > 0 {
			t.Errorf("%v after %d requests and %s", err, n, time.Since(begin))
		}
	})
}

func TestParse(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	members := []map[string]string{
		member("rsa", rsaKey.Public()), member("rsa-only", rsaKey.Public(), "alg", "RS384"), member("ed", edKey(1), "alg", "EdDSA"),
		member("enc", rsaKey.Public(), "use", "enc"), member("no use", rsaKey.Public(), "use", ""), member("", rsaKey.Public()),
		member("oct", nil, "kty", "oct", "k", "c2VjcmV0"), member("x25519", edKey(1), "crv", "X25519"),
		member("small", &rsa.PublicKey{N: big.NewInt(1).Lsh(big.NewInt(1), 1000), E: 65537}),
		member("large", &rsa.PublicKey{N: big.NewInt(1).Lsh(big.NewInt(1), 9000), E: 65537}),
		member("e=1", &rsa.PublicKey{N: rsaKey.N, E: 1}), member("huge e", rsaKey.Public(), "e", "____________"),
	}
	public := map[string]crypto.PublicKey{"rsa": rsaKey.Public(), "rsa-only": rsaKey.Public(), "ed": edKey(1)}
	algs := map[string]string{"rsa": "RS256 RS384 RS512", "rsa-only": "RS384", "ed": "EdDSA"}
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public[alg], algs[alg] = k.Public(), alg
		members = append(members, member(alg, k.Public()), member("off "+alg, k.Public(), "y", member("", k.Public())["x"]))
	}
	keys, skipped, err := parse([]byte(strings.TrimSuffix(document(members...), "]}") + `,1,{"kid":1}]}`))
	if err != nil || len(keys) != len(public) {
		t.Fatal(err, len(keys))
	}
	for i := range keys {
		k := &keys[i]
		var fits []string
		for _, alg := range []string{"none", "HS256", "RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA"} {
			if k.fits(alg) {
				fits = append(fits, alg)
			}
		}
		same := k.public.(interface{ Equal(crypto.PublicKey) bool }).Equal(public[k.id])
		if got := strings.Join(fits, " "); got != algs[k.id] || !same {
			t.Errorf("%s is for %q, want %q; same key: %v", k.id, got, algs[k.id], same)
		}
	}
	if n := strings.Count(skipped.Error(), "keys["); n != 11 {
		t.Errorf("%d skipped: %v", n, skipped)
	}
}

// Whatever a provider sends: no panic, and no key that a signature may not be verified with.
func FuzzParse(f *testing.F) {
	f.Add([]byte(document(member("a", edKey(1)))))
	f.Add([]byte(`{"keys":[{"kty":"RSA","use":"sig","kid":"a","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","use":"sig","kid":"b","x":"","y":""}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, _, err := parse(body)
		if (err == nil) != (len(keys) > 0) {
			t.Fatal(len(keys), err)
		}
		for _, k := range keys {
			again, err := json.Marshal(map[string]any{"keys": []any{member(k.id, k.public, "alg", k.only)}})
			if err != nil {
				t.Fatal(err)
			}
			same, _, err := parse(again)
			if err != nil || !same[0].public.(interface{ Equal(crypto.PublicKey) bool }).Equal(k.public) {
				t.Fatalf("%s: %v", again, err)
			}
		}
	})
}

// An endpoint that fails several times in a row leaves one line, whose error does not quote ports of this host.
func TestSameFailure(t *testing.T) {
	for name, cause := range map[string]func(port int) error{
		"reset": func(port int) error {
			local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
			return &net.OpError{Op: "read", Net: "tcp", Source: local, Addr: local, Err: syscall.ECONNRESET}
		},
		"lookup": func(port int) error {
			return &net.OpError{Op: "dial", Err: &net.DNSError{Name: "idp.example", Err: fmt.Sprintf("read udp :%d: i/o timeout", port), IsTimeout: true}}
		},
		"unknown host": func(int) error { return &net.DNSError{Name: "idp.example", IsNotFound: true} },
		"no server":    func(int) error { return &net.DNSError{Name: "idp.example", Err: "server misbehaving"} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *provider, e *Endpoint, log func() string) {
				p.fails = cause
				for range 5 {
					want(t, e, "a", ErrUnavailable)
					time.Sleep(time.Minute)
				}
				if text := log(); strings.Count(text, "cannot be fetched") != 1 || !strings.Contains(text, "known") {
					t.Error(text)
				}
			})
		})
	}
}
