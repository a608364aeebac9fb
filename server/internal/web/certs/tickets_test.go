package certs

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Secrets of the tests.
const (
	secretOne = "the first secret of the tests, 32 bytes or more"
	secretTwo = "the second secret of the tests, 32 bytes or more"
)

// oneSession keeps the first session that it is given, whatever comes later.
type oneSession struct{ state *tls.ClientSessionState }

func (o *oneSession) Get(string) (*tls.ClientSessionState, bool) { return o.state, o.state != nil }

func (o *oneSession) Put(_ string, s *tls.ClientSessionState) {
	if o.state == nil {
		o.state = s
	}
}

// node is a server whose tickets a test looks at.
type node struct {
	t      *testing.T
	store  *Store
	server *tls.Config
}

func newNode(t *testing.T, section string, p config.CertificatePair, edit func(*config.ListenerTLS)) *node {
	t.Helper()
	s, _ := newStore(t, config.TLSAutocert{})
	o := object(p)
	edit(&o)
	return &node{t, s, configOf(t, s, section, o)}
}

// session connects a new client, which keeps its session.
func (n *node) session(version uint16) *tls.Config {
	n.t.Helper()
	c := &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, MaxVersion: version, ClientSessionCache: &oneSession{}}
	if n.resumes(c) {
		n.t.Error("the first handshake of a client resumes a session")
	}
	return c
}

// resumes reports whether the node resumes the session of a client.
func (n *node) resumes(c *tls.Config) bool {
	n.t.Helper()
	state, err := shake(n.server, c)
	if err != nil {
		n.t.Error(err)
	}
	return state.DidResume
}

// versions are those of TLS, whose session tickets differ.
var versions = []uint16{tls.VersionTLS12, tls.VersionTLS13}

// TestTicketsOfNodes: nodes with one secret resume each other's sessions, after rotations as
// well, and not beyond the retention.
func TestTicketsOfNodes(t *testing.T) {
	for _, version := range versions {
		synctest.Test(t, func(t *testing.T) {
			pair := newCA(t).issue(1, nil, "a.example")
			secret := func(text string) func(*config.ListenerTLS) {
				return func(o *config.ListenerTLS) { o.TicketSecret = text }
			}
			rotation := config.DefaultConfig().HTTPServer.TLS.TicketRotation
			one, two := newNode(t, "http_server.tls", pair, secret(secretOne)), newNode(t, "http_server.tls", pair, secret(secretOne))
			other := newNode(t, "http_server.tls", pair, secret(secretTwo))
			elsewhere := newNode(t, "uni_grpc.tls", pair, secret(secretOne))
			client := one.session(version)
			if !one.resumes(client) || !two.resumes(client) {
				t.Error("a node with the same secret does not resume the session")
			}
			if other.resumes(client) || elsewhere.resumes(client) {
				t.Error("a node with another secret, or another listener, resumes the session")
			}
			for period := 1; period <= keptKeys+1; period++ {
				time.Sleep(rotation)
				for _, n := range []*node{one, two} {
					n.store.refresh(time.Now())
					if got, want := n.resumes(client), period <= keptKeys; got != want {
						t.Errorf("after %d rotations: resumed %v, want %v", period, got, want)
					}
				}
				late := two.session(version)
				if !one.resumes(late) {
					t.Errorf("after %d rotations: a new session is not resumed", period)
				}
			}
		})
	}
}

// TestTicketsWithoutSecret: each node has keys of its own, which a new certificate leaves alone.
func TestTicketsWithoutSecret(t *testing.T) {
	dir := t.TempDir()
	files := config.CertificatePair{CertPEM: config.PEM(filepath.Join(dir, "cert.pem")), KeyPEM: config.PEM(filepath.Join(dir, "key.pem"))}
	authority := newCA(t)
	put := func(p config.CertificatePair) {
		write(t, string(files.CertPEM), p.CertPEM)
		write(t, string(files.KeyPEM), p.KeyPEM)
	}
	put(authority.issue(1, nil, "a.example"))
	one, two := newNode(t, "http_server.tls", files, func(*config.ListenerTLS) {}), newNode(t, "http_server.tls", files, func(*config.ListenerTLS) {})
	for _, version := range versions {
		client := one.session(version)
		put(authority.issue(int64(version), nil, "a.example"))
		one.store.Reload()
		if got := serialOf(one.server, "a.example"); got != int64(version) {
			t.Errorf("certificate %d", got)
		}
		if !one.resumes(client) || two.resumes(client) {
			t.Error("the node does not resume its own session, or another one does")
		}
	}
}

// TestTicketSecretFile: secrets are exchanged without a session lost: all nodes accept the new
// one before any of them uses it.
func TestTicketSecretFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(secretOne)
	pair := newCA(t).issue(1, nil, "a.example")
	fromFile := func(o *config.ListenerTLS) { o.TicketSecretFile = file }
	one, two := newNode(t, "http_server.tls", pair, fromFile), newNode(t, "http_server.tls", pair, fromFile)
	old := one.session(tls.VersionTLS13)
	for _, step := range []struct {
		one, two string
		old      bool // sessions of the first secret are resumed
	}{
		{secretOne + "\n" + secretTwo, secretOne, true},
		{secretOne + "\n" + secretTwo, secretOne + "\n" + secretTwo, true},
		{secretTwo + "\n" + secretOne + "\n", secretOne + "\n" + secretTwo, true},
		{secretTwo + "\n" + secretOne, secretTwo + "\n\n" + secretOne, true},
		{secretTwo, secretTwo, false},
		{"too short", "", false}, // both stay with what they had
	} {
		put(step.one)
		one.store.Reload()
		put(step.two)
		two.store.Reload()
		for _, n := range []*node{one, two} {
			fresh := n.session(tls.VersionTLS13)
			if !one.resumes(fresh) || !two.resumes(fresh) {
				t.Errorf("%+v: a new session is not resumed", step)
			}
			if n.resumes(old) != step.old {
				t.Errorf("%+v: the old session is resumed: %v", step, !step.old)
			}
		}
	}
}

// TestTicketKeys: the keys are those of RFC 5869, and that of a clock which is ahead by a period
// is accepted.
func TestTicketKeys(t *testing.T) {
	k := &tickets{scope: "http_server.tls", rotation: time.Hour, secrets: []string{secretOne, secretTwo}}
	now := time.Unix(1_800_000_000, 0)
	sum := func(key, text []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(text)
		return h.Sum(nil)
	}
	var want [][32]byte
	for _, secret := range k.secrets {
		for _, n := range []int{500000, 499999, 499998, 500001} {
			info := fmt.Sprintf("gyro session tickets, http_server.tls, every 1h0m0s, key %d\x01", n)
			want = append(want, [32]byte(sum(sum(make([]byte, 32), []byte(secret)), []byte(info))))
		}
	}
	if got := k.keys(now); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if k.due(now.Add(59*time.Minute)) || !k.due(now.Add(time.Hour)) {
		t.Error("the next key is not due when the period ends")
	}
	if ahead := k.keys(now.Add(time.Hour))[0]; ahead != want[3] {
		t.Error("the ticket of a clock that is ahead is not accepted")
	}
}
