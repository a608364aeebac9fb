package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
)

const autocertKey = "http_server.tls_autocert"

const (
	// maxHosts bounds host_whitelist.
	maxHosts = 256
	// firstRetry is the pause after the first failed attempt. Each further one doubles it, up to maxRetry, because
	// authorities limit failed attempts to a few per hour.
	firstRetry, maxRetry = 2 * time.Minute, time.Hour
	// maxWait is how long a handshake waits for the first certificate of its host.
	maxWait = 10 * time.Second
)

// They quote nothing of the client.
var (
	errForeignHost = errors.New("the name that the client asks for is not in " + autocertKey + ".host_whitelist")
	errNoHost      = errors.New("the client asks for no name, and " + autocertKey + ".server_name is not set")
	errNotObtained = errors.New("the certificate for that name has not been obtained yet")
)

// authority obtains certificates by ACME. It asks for them by itself when the server starts, so clients do not cause
// orders. Handshakes take the certificate in the store. During the first attempt one handshake waits for its end and
// others fail at once, so clients cannot take up all handshakes of a listener: the authority's challenge needs one.
type authority struct {
	log        *slog.Logger
	cacheDir   string
	serverName string
	hosts      map[string]*host // by name in ASCII
	waiting    chan struct{}    // has one place for the handshake that waits
	challenges http.Handler     // nil without http-01

	// obtain returns the certificate of a host: the present one, renewed in time, or a new one after seconds or minutes.
	// obtain and token are autocert.Manager.GetCertificate.
	obtain func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// token returns the certificate that answers a tls-alpn-01 challenge.
	token func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

type host struct {
	name string

	mu      sync.Mutex
	cert    *tls.Certificate // nil until the first one has been obtained
	ended   chan struct{}    // closed when the attempt that is under way ends; nil: none is
	running bool             // a goroutine asks for the certificate
	pause   time.Duration    // after the last attempt that failed
	retryAt time.Time
	expiry
}

// newAuthority checks the configuration. Errors name the key below the section.
func newAuthority(cfg config.TLSAutocert, log *slog.Logger) (*authority, error) {
	a := &authority{log: log, cacheDir: cfg.CacheDir, hosts: make(map[string]*host), waiting: make(chan struct{}, 1)}
	if n := len(cfg.HostWhitelist); n == 0 || n > maxHosts {
		return nil, fmt.Errorf("host_whitelist: has %d hosts, must have 1 to %d", n, maxHosts)
	}
	var names []string
	for i, given := range cfg.HostWhitelist {
		name, err := hostName(given)
		if err != nil {
			return nil, fmt.Errorf("host_whitelist: item %d: %w", i, err)
		}
		a.hosts[name] = &host{name: name, ended: make(chan struct{})}
		names = append(names, name)
	}
	if cfg.ServerName != "" {
		if a.serverName, _ = hostName(cfg.ServerName); a.hosts[a.serverName] == nil {
			return nil, errors.New("server_name: is not in host_whitelist")
		}
	}
	if _, _, err := net.SplitHostPort(cfg.HTTPAddr); cfg.HTTP && err != nil {
		return nil, fmt.Errorf("http_addr: %w", err)
	}
	client, err := acmeClient(cfg)
	if err != nil {
		return nil, err
	}
	m := &autocert.Manager{Prompt: autocert.AcceptTOS, Email: cfg.Email, Client: client, HostPolicy: autocert.HostWhitelist(names...)}
	if cfg.CacheDir != "" {
		m.Cache = cache{autocert.DirCache(cfg.CacheDir), log}
	}
	a.obtain, a.token = m.GetCertificate, m.GetCertificate
	if cfg.HTTP {
		a.challenges = withoutPort(m.HTTPHandler(nil))
	}
	return a, nil
}

// withoutPort removes the port in the Host of requests, which autocert does not expect.
func withoutPort(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			r = r.Clone(r.Context())
			r.Host = host
		}
		next.ServeHTTP(w, r)
	})
}

func hostName(given string) (string, error) {
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(given, "."))
	if err != nil || !strings.Contains(name, ".") || net.ParseIP(name) != nil {
		return "", errors.New("is not the full name of a host; patterns and addresses are not possible")
	}
	return name, nil
}

func acmeClient(cfg config.TLSAutocert) (*acme.Client, error) {
	c := &acme.Client{DirectoryURL: autocert.DefaultACMEDirectory, UserAgent: "gyro"}
	if cfg.DirectoryURL != "" {
		u, err := url.Parse(cfg.DirectoryURL)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("directory_url: is not an https:// URL")
		}
		c.DirectoryURL = cfg.DirectoryURL
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c.HTTPClient = &http.Client{Transport: transport, Timeout: time.Minute}
	if cfg.DirectoryCAPEM != "" {
		var roots *x509.CertPool
		if _, err := newPool("directory_ca_pem", cfg.DirectoryCAPEM, &roots); err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	return c, nil
}

// cache is the directory of certificates. autocert ignores errors of Put.
type cache struct {
	autocert.DirCache
	log *slog.Logger
}

// Put implements autocert.Cache.
func (c cache) Put(ctx context.Context, name string, data []byte) error {
	err := c.DirCache.Put(ctx, name, data)
	if err != nil {
		c.log.Error("certificates of the ACME authority cannot be stored for the next start", "key", autocertKey+".cache_dir", "error", err)
	}
	return err
}

// prepareCache creates the directory, and writes to it.
func (a *authority) prepareCache() error {
	if a.cacheDir == "" {
		a.log.Warn("certificates of ACME are not stored, so each start needs new ones, which authorities limit", "key", autocertKey+".cache_dir")
		return nil
	}
	if err := os.MkdirAll(a.cacheDir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(a.cacheDir, "writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// certificate is GetCertificate of listeners.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := a.serverName
	if hello.ServerName != "" {
		name, _ = hostName(hello.ServerName)
	} else if name == "" {
		return nil, errNoHost
	}
	h := a.hosts[name]
	if h == nil {
		return nil, errForeignHost
	}
	cert, ended := h.state()
	if cert == nil && ended != nil {
		a.wait(hello.Context(), ended)
		cert, _ = h.state()
	}
	if cert == nil {
		return nil, errNotObtained
	}
	return cert, nil
}

// wait returns at the end of the attempt, or at once if a handshake waits already.
func (a *authority) wait(ctx context.Context, ended <-chan struct{}) {
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// state returns the certificate, and the end of the present attempt.
func (h *host) state() (*tls.Certificate, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cert, h.ended
}

func (a *authority) refresh(now time.Time) {
	for _, h := range a.hosts {
		if h.begin(now) {
			go a.ask(h)
		}
	}
}

func (a *authority) retry(now time.Time) {
	for _, h := range a.hosts {
		h.mu.Lock()
		h.retryAt = now
		h.mu.Unlock()
	}
}

func (h *host) begin(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running || now.Before(h.retryAt) {
		return false
	}
	h.running = true
	if h.cert == nil && h.ended == nil {
		h.ended = make(chan struct{})
	}
	return true
}

func (a *authority) ask(h *host) {
	// A client that accepts ECDSA sends such a message. Gyro asks for these certificates only.
	cert, err := a.obtain(&tls.ClientHelloInfo{ServerName: h.name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	if h.ended != nil {
		close(h.ended)
		h.ended = nil
	}
	now := time.Now()
	if err != nil {
		h.pause = min(max(2*h.pause, firstRetry), maxRetry)
		h.retryAt = now.Add(h.pause)
		a.log.Error("no certificate could be obtained by ACME", "key", autocertKey, "host", h.name, "error", err, logging.Milliseconds("retry_in", h.pause))
		return
	}
	h.pause = 0
	if h.cert == nil || !h.cert.Leaf.Equal(cert.Leaf) {
		h.cert, h.expiry = cert, expiry{}
		a.log.Info("a certificate of ACME is in force", "key", autocertKey, "host", h.name, "expires", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	h.warn(a.log, cert.Leaf, now, "key", autocertKey, "host", h.name)
}
