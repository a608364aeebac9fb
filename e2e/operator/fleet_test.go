//go:build linux

package operator

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// keys sign tokens by an HMAC secret or an ECDSA key. Any goroutine may use them.
type keys struct {
	private *ecdsa.PrivateKey
	public  string // PEM text

	mu      sync.Mutex
	current string // HMAC secret
	byECDSA bool
}

func newKeys(tb testing.TB) *keys {
	tb.Helper()
	k := &keys{current: "the-first-secret-of-tokens-of-clients"}
	var err error
	if k.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&k.private.PublicKey)
	if err != nil {
		tb.Fatal(err)
	}
	k.public = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return k
}

func (k *keys) secret() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

func (k *keys) use(secret string, byECDSA bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.byECDSA = secret, byECDSA
}

const tokenLife = 120 * time.Second

func (k *keys) token(user string) (string, error) {
	k.mu.Lock()
	secret, byECDSA := k.current, k.byECDSA
	k.mu.Unlock()
	claims := object{"sub": user, "exp": time.Now().Add(tokenLife).Unix()}
	if !byECDSA {
		return rig.TokenBy(secret, claims), nil
	}
	return k.sign(claims)
}

func (k *keys) sign(claims object) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + enc.EncodeToString(payload)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + enc.EncodeToString(signature), nil
}

const (
	channels    = 30 // with recovery
	ticker      = "ticker"
	every       = time.Second // a publication in each channel
	answerLimit = 5 * time.Second
	handshakes  = 50
)

type fleet struct {
	stand      *stand
	clients    []*client
	publishers []*account.Publisher
	recorder   account.Recorder
	publishing sync.WaitGroup
	halt       context.CancelFunc // of the publishers

	mu       sync.Mutex
	failures []string
	proofs   []string
}

// client is of the public SDK, or an EventSource, with its book.
type client struct {
	member
	source bool
	book   account.Book
	ledger *account.Ledger
}

type member interface {
	Subscribed() bool
	Describe() string
	Away(now time.Time, anew bool) (times int, longest time.Duration, still bool)
	Close()
}

func newFleet(s *stand, n int) (*fleet, error) {
	f := &fleet{stand: s}
	var ledgers []*account.Ledger
	for range channels + 1 {
		ledgers = append(ledgers, &account.Ledger{})
	}
	for i := range n {
		number := i / 10 % channels
		channel, lossy := "news:"+strconv.Itoa(number), i%10 == 9
		if lossy {
			number, channel = channels, ticker
		}
		if err := f.connect(fmt.Sprintf("user-%d", i), channel, lossy, ledgers[number]); err != nil {
			return f, err
		}
		if len(f.clients)%handshakes == 0 || len(f.clients) == n {
			if err := s.until("the first subscriptions", func() bool { return f.unsubscribed() == 0 }); err != nil {
				return f, fmt.Errorf("%w; %s", err, f.describe())
			}
		}
	}
	for i := range sources {
		if err := f.listen(fmt.Sprintf("page-%d", i), "news:"+strconv.Itoa(i), ledgers[i]); err != nil {
			return f, err
		}
	}
	if err := s.until("the EventSources", func() bool { return f.unsubscribed() == 0 }); err != nil {
		return f, fmt.Errorf("%w; %s", err, f.describe())
	}
	f.publish(ledgers)
	return f, nil
}

func (f *fleet) connect(user, channel string, lossy bool, ledger *account.Ledger) error {
	c := f.open(user, lossy, ledger)
	sdk, err := account.NewSDK(account.Options{
		URL: "wss://rt.example.com/connection/websocket", Channel: channel, Book: &c.book,
		Subscription: centrifuge.SubscriptionConfig{Recoverable: !lossy},
		Client:       f.stand.sdk(func() (string, error) { return f.stand.keys.token(user) }),
		Check: func(p account.Payload) error {
			if p.N <= 0 {
				return errors.New("a publication without a number")
			}
			return nil
		},
		Fail: func(what string) { f.note(&f.failures, user+": "+what) },
	})
	if err != nil {
		return err
	}
	f.add(c, sdk)
	return nil
}

func (f *fleet) open(user string, lossy bool, ledger *account.Ledger) *client {
	c := &client{ledger: ledger}
	c.book.Owner, c.book.Ledger, c.book.Lossy = user, ledger, lossy
	c.book.Evidence = func(what string) { f.note(&f.proofs, user+": "+what) }
	return c
}

func (f *fleet) add(c *client, m member) {
	c.member = m
	f.stand.tb.Cleanup(c.Close)
	f.clients = append(f.clients, c)
}

const sources = 9

// listen adds an EventSource, whose token lives as long as the run, by the key that is not exchanged.
func (f *fleet) listen(user, channel string, ledger *account.Ledger) error {
	c := f.open(user, false, ledger)
	c.source = true
	token, err := f.stand.keys.sign(object{"sub": user, "exp": time.Now().Add(24 * time.Hour).Unix()})
	if err != nil {
		return err
	}
	s, err := newSource(f.stand, channel, token, &c.book, func(what string) { f.note(&f.failures, user+": "+what) })
	if err != nil {
		return err
	}
	f.add(c, s)
	return nil
}

// sdk has the defaults of the SDK, but for the limits of handshakes and writes: all share one machine here.
func (s *stand) sdk(token func() (string, error)) centrifuge.Config {
	return centrifuge.Config{
		GetToken:         func(centrifuge.ConnectionTokenEvent) (string, error) { return token() },
		HandshakeTimeout: wire.Timeout, WriteTimeout: wire.Timeout,
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, // no authority has signed it
		NetDialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.public)
		},
	}
}

func (f *fleet) note(list *[]string, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*list) < 20 {
		*list = append(*list, time.Now().Format(time.TimeOnly)+" "+what)
	}
}

func (f *fleet) publish(ledgers []*account.Ledger) {
	ctx, cancel := context.WithCancel(f.stand.ctx)
	f.halt = cancel
	transport := &http.Transport{MaxIdleConnsPerHost: len(ledgers)}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i, ledger := range ledgers {
		p := &account.Publisher{
			Channel: "news:" + strconv.Itoa(i), Run: run, Nodes: []string{f.stand.private}, Every: every, Retry: 100 * time.Millisecond,
			Client: &http.Client{Transport: transport, Timeout: answerLimit}, Recorder: &f.recorder, Ledger: ledger,
		}
		if i == channels {
			p.Channel, p.Keyless = ticker, true
		}
		f.publishers = append(f.publishers, p)
		f.publishing.Go(func() { p.Work(ctx) })
	}
	f.stand.tb.Cleanup(func() {
		f.stop()
		transport.CloseIdleConnections()
	})
}

func (f *fleet) stop() {
	f.halt()
	f.publishing.Wait()
}

func (f *fleet) unsubscribed() (n int) {
	for _, c := range f.clients {
		if !c.Subscribed() {
			n++
		}
	}
	return n
}

func (f *fleet) describe() string {
	var said []string
	for _, c := range f.clients {
		if reached, acked := c.book.Reached(), c.ledger.Acked.Load(); (!c.Subscribed() || reached < acked) && len(said) < 5 {
			said = append(said, fmt.Sprintf("%s is %s, and has %d of %d", c.book.Owner, c.Describe(), reached, acked))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(append(said, f.failures...), "; ")
}

// acknowledged waits for so many more publications of each channel.
func (f *fleet) acknowledged(more int64) error {
	goals := make([]int64, len(f.publishers))
	for i, p := range f.publishers {
		goals[i] = p.Ledger.Acked.Load() + more
	}
	return f.stand.until("publications that are acknowledged", func() bool {
		for i, p := range f.publishers {
			if p.Ledger.Acked.Load() < goals[i] {
				return false
			}
		}
		return true
	})
}

func (f *fleet) failing() error {
	before := f.recorder.Peek().Failed()
	return f.stand.until("calls of the API that fail", func() bool { return f.recorder.Peek().Failed() > before })
}

// caughtUp waits until all clients have the next acknowledged publication, or a later one.
func (f *fleet) caughtUp() error {
	if err := f.acknowledged(1); err != nil {
		return err
	}
	return f.top("publications for all clients")
}

func (f *fleet) top(what string) error {
	goals := make(map[*account.Ledger]int64)
	for _, p := range f.publishers {
		goals[p.Ledger] = p.Ledger.Acked.Load()
	}
	behind := 0
	err := f.stand.until(what, func() bool {
		behind = 0
		for _, c := range f.clients {
			if !c.Subscribed() || c.book.Reached() < goals[c.ledger] {
				behind++
			}
		}
		return behind == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %d of %d clients are not back; %s", err, behind, len(f.clients), f.describe())
	}
	return nil
}

type tally struct {
	account.Counts // of channels with recovery, of the SDK
	absences
	Pages     account.Counts // of EventSources
	PagesAway absences
	Plain     int // numbers that did not come on the plain channel
	Again     int // numbers that came twice there
	Answers   account.Answers
	Failures  []string
	Proofs    []string
}

type absences struct {
	Left    int
	Longest time.Duration
	Away    int
}

func (a *absences) add(times int, longest time.Duration, away bool) {
	if times > 0 {
		a.Left++
	}
	if away {
		a.Away++
	}
	a.Longest = max(a.Longest, longest)
}

func (a *absences) String() string {
	text := "-"
	if a.Left > 0 {
		text = fmt.Sprintf("%.1f s", a.Longest.Seconds())
	}
	if a.Away > 0 {
		text += fmt.Sprintf(", %d still", a.Away)
	}
	return text
}

func (f *fleet) collect() (t tally) {
	now := time.Now()
	for _, c := range f.clients {
		counts := c.book.Read(true)
		if c.source {
			t.PagesAway.add(c.Away(now, true))
			t.Pages.Add(counts)
			continue
		}
		t.absences.add(c.Away(now, true))
		if c.book.Lossy {
			t.Plain += counts.Missed
			t.Again += counts.Duplicated
			continue
		}
		t.Counts.Add(counts)
	}
	t.Answers = f.recorder.Begin()
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Failures, f.failures = f.failures, nil
	t.Proofs, f.proofs = f.proofs, nil
	return t
}

type guests struct {
	all []*centrifuge.Client

	mu    sync.Mutex
	begun time.Time
	last  time.Duration  // until the last one was connected
	ended map[uint32]int // for good, by code
	came  int
}

func (s *stand) invite(n int, secret string, life time.Duration) *guests {
	g := &guests{begun: time.Now(), ended: make(map[uint32]int)}
	for i := range n {
		c := centrifuge.NewJsonClient("wss://rt.example.com/connection/websocket", s.sdk(func() (string, error) {
			return rig.TokenBy(secret, object{"sub": fmt.Sprintf("guest-%d", i), "exp": time.Now().Add(life).Unix()}), nil
		}))
		var once sync.Once
		c.OnConnected(func(centrifuge.ConnectedEvent) {
			once.Do(func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.came++
				g.last = time.Since(g.begun)
			})
		})
		c.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.ended[e.Code]++
		})
		g.all = append(g.all, c)
		go func() { _ = c.Connect() }() // it waits for the first attempt
	}
	return g
}

func (g *guests) close() {
	for _, c := range g.all {
		c.Close()
	}
}

// counts returns how many guests came, how long the last took, and how many were thrown out for good, by code.
func (g *guests) counts() (came int, last time.Duration, ended string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.came, g.last, fmt.Sprint(g.ended)
}

func (g *guests) thrown() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, count := range g.ended {
		n += count
	}
	return n
}
