package servicebus

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source returns a source of the fake's queue "events".
func (f *fake) source(edit func(*config.Consumer)) *Source {
	f.tb.Helper()
	c := config.Consumer{AzureServiceBus: config.AzureConsumer{
		ConnectionString: fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=gyro;SharedAccessKey=hush;UseDevelopmentEmulator=true", f.Addr()),
		Queues:           []string{"events"}, MaxConcurrentCalls: 1, MaxReceiveMessages: 10, MethodProperty: "centrifugo-method",
	}}
	if edit != nil {
		edit(&c)
	}
	s, err := New(&c)
	if err != nil {
		f.tb.Fatal(err)
	}
	return s
}

func (f *fake) awaitEmpty(name string) {
	f.tb.Helper()
	wait.Until(f.tb, "completion", func() bool { return len(f.left(name)) == 0 })
}

// TestConsume: messages are executed and completed, in their order if there is one at a time; another source goes on where
// the first stopped.
func TestConsume(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 10} {
		f := newFake(t)
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		var want []string
		for round := range 2 {
			for i := range 25 {
				f.publish("", fmt.Sprint("ch", i%3), fmt.Sprintf("%d-%02d", round, i))
				want = append(want, fmt.Sprintf(`ch%d "%d-%02d"`, i%3, round, i))
			}
			stop := queuetest.Start(t, f.source(func(c *config.Consumer) { c.AzureServiceBus.MaxReceiveMessages = size }), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
			got := slices.Clone(node.Await(t, len(want)))
			expected := slices.Clone(want)
			if size > 1 { // one that the client gets late goes back to the queue
				slices.Sort(got)
				slices.Sort(expected)
			}
			if !slices.Equal(got, expected) {
				t.Errorf("got %q", got)
			}
			stop()
			if left := f.left("events"); len(left) > 0 {
				t.Errorf("not completed: %+v", left)
			}
		}
		if processed, failed, gaveUp := meter.Counts(); processed != 50 || failed != 0 || gaveUp != 0 {
			t.Errorf("processed %d, failed %d, gave up %d", processed, failed, gaveUp)
		}
	}
}

// TestDataMode: the body is the data, and properties that are strings are options.
func TestDataMode(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.add("events", "", "x", dict{"channels": "a,b", "key": "k", "version": int64(7)})
	node := queuetest.NewNode()
	queuetest.Start(t, f.source(nil), queuetest.Config(node, func(c *queues.Config) {
		c.Mode = &config.PublicationDataMode{Enabled: true, Channels: "channels", IdempotencyKey: "key", Version: "version"}
	}))
	if got := node.Await(t, 2); !slices.Equal(got, []string{"a x", "b x"}) {
		t.Errorf("got %q", got)
	}
	if o := node.Options()[0]; o.IdempotencyKey != "k" || o.Version != 0 {
		t.Errorf("got %+v", o)
	}
}

// TestRetry: a message that fails is tried six times and then abandoned, so that it comes again. Others
// are executed meanwhile.
func TestRetry(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	node := queuetest.NewNode()
	var mu sync.Mutex
	attempts := 0
	good := false
	node.Fails = func(ch string, _ []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if ch != "bad" {
			good = true
			return false
		}
		attempts++
		if abandoned := look(f, func() int { return f.abandoned }); (abandoned > 0) != (attempts > 1+retries) {
			t.Errorf("abandoned %d times before attempt %d", abandoned, attempts)
		}
		return attempts <= 1+retries || !good
	}
	f.publish("", "bad", "1")
	f.publish("", "good", "2")
	queuetest.Start(t, f.source(nil), queuetest.Config(node, nil))
	if got := node.Await(t, 2); !slices.Equal(got, []string{`good "2"`, `bad "1"`}) {
		t.Errorf("got %q", got)
	}
	f.awaitEmpty("events")
}

// TestSessions: messages of a session are executed in their order. When one fails, those behind it wait,
// and other sessions go on.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 10} {
		f := newFake(t)
		node := queuetest.NewNode()
		node.Fails = func(_ string, data []byte) bool { return string(data) == `"bad-1"` }
		for i := range 5 {
			for _, session := range []string{"a", "bad", "c"} {
				f.publish(session, fmt.Sprint("ch", i), fmt.Sprint(session, "-", i))
			}
		}
		stop := queuetest.Start(t, f.source(func(c *config.Consumer) {
			c.AzureServiceBus.UseSessions, c.AzureServiceBus.MaxConcurrentCalls, c.AzureServiceBus.MaxReceiveMessages = true, 2, size
		}), queuetest.Config(node, nil))
		wait.Until(t, "completion", func() bool { return len(f.left("events")) == 4 })
		if got := node.Got(); len(got) != 11 {
			t.Errorf("got %q", got)
		}
		node.SetFails(nil)
		got := node.Await(t, 15)
		f.awaitEmpty("events")
		stop()
		for _, session := range []string{"a", "bad", "c"} {
			var of []string
			for _, g := range got {
				if strings.Contains(g, session+"-") {
					of = append(of, g)
				}
			}
			if len(of) != 5 || !slices.IsSorted(of) {
				t.Errorf("got %q", of)
			}
		}
	}
}

// TestLockOfSession: the lock of a session is renewed while its messages are executed. If that fails, the
// session is left, and taken again.
func TestLockOfSession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.lockTime = 300 * time.Millisecond
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	node.Fails = func(string, []byte) bool { return true }
	f.publish("s", "a", "1")
	queuetest.Start(t, f.source(func(c *config.Consumer) { c.AzureServiceBus.UseSessions = true }), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	wait.Until(t, "renewals", func() bool { return look(f, func() int { return f.renewals }) > 1 })
	f.do(func() { f.refuse["renew"], f.renewals = true, 0 })
	wait.Until(t, "renewals", func() bool { return look(f, func() int { return f.renewals }) > 1 })
	f.do(func() { f.refuse["renew"] = false })
	node.SetFails(nil)
	node.Await(t, 1)
	f.awaitEmpty("events")
}

// TestNoSession: that there is no session is no error.
func TestNoSession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, f.source(func(c *config.Consumer) { c.AzureServiceBus.UseSessions = true }), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	wait.Until(t, "requests for a session", func() bool { return look(f, func() int { return f.accepts }) > 2 })
	if _, failed, _ := meter.Counts(); failed > 0 {
		t.Errorf("failed %d times", failed)
	}
	f.publish("s", "a", "1")
	node.Await(t, 1)
}

// TestPoison: a message that fails for too long goes to the queue of dead letters, also if it is all
// that there is in its session.
func TestPoison(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "s"} {
		f := newFake(t)
		node := queuetest.NewNode()
		node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
		f.publish(session, "bad", "1")
		s := f.source(func(c *config.Consumer) { c.DeadLetter, c.AzureServiceBus.UseSessions = "dead", session != "" })
		queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) { c.RetryTime, c.DeadLetter = time.Millisecond, s.KeepDeadLetter }))
		wait.Until(t, "dead letter", func() bool {
			if session == "" {
				f.publish("", "good", "2") // or nothing would tell that the message is the reason
			}
			return len(f.left("dead")) > 0
		})
		f.awaitEmpty("events")
		letter := f.left("dead")[0]
		if string(letter.body) != `{"channel":"bad","data":"1"}` || letter.properties["gyro-message"] != "events/1" ||
			!strings.HasPrefix(fmt.Sprint(letter.properties["gyro-reason"]), "publish: 100") || letter.properties["centrifugo-method"] != "publish" {
			t.Errorf("got %+v", letter)
		}
	}
}

// TestLockLost: a message that cannot be completed is executed again.
func TestLockLost(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.refuse["settle"] = true
	f.publish("", "a", "1")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, f.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	f.do(func() { f.refuse["settle"] = false })
	f.unlock()
	node.Await(t, 2)
	f.awaitEmpty("events")
}

// TestOutage: the source goes on when the service is back. It need not be there at the start.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, sessions := range []bool{false, true} {
		f := newFake(t)
		f.stop()
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		session := ""
		if sessions {
			session = "s"
		}
		queuetest.Start(t, f.source(func(c *config.Consumer) { c.AzureServiceBus.UseSessions = sessions }), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
		for round := range 2 {
			_, before, _ := meter.Counts()
			wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > before })
			f.restart()
			f.publish(session, "a", fmt.Sprint(round))
			node.Await(t, 1+round)
			f.awaitEmpty("events")
			f.stop()
		}
	}
}

// TestStopWhileBusy: messages that a source stopped with go to the next one, each exactly once; those that
// were on their way to it when their locks expire.
func TestStopWhileBusy(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "s"} {
		f := newFake(t)
		node := queuetest.NewNode()
		edit := func(c *config.Consumer) {
			c.AzureServiceBus.MaxConcurrentCalls, c.AzureServiceBus.UseSessions = 2, session != ""
		}
		first := queuetest.Start(t, f.source(edit), queuetest.Config(node, nil))
		var want []string
		for i := range 300 {
			f.publish(session, "a", fmt.Sprint(i))
			if want = append(want, fmt.Sprintf(`a "%d"`, i)); i == 100 {
				go first()
			}
		}
		first()
		f.unlock()
		queuetest.Start(t, f.source(edit), queuetest.Config(node, nil))
		got := slices.Clone(node.Await(t, len(want)))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %d messages %q", len(got), got)
		}
		f.awaitEmpty("events")
	}
}

// authority answers requests to Entra ID.
type authority struct {
	mu   sync.Mutex
	body string // of the request for a token
}

func (a *authority) Do(r *http.Request) (*http.Response, error) {
	text := `{"access_token":"the-token","expires_in":3600,"token_type":"Bearer"}`
	if strings.HasSuffix(r.URL.Path, "openid-configuration") {
		text = `{"token_endpoint":"https://login.microsoftonline.com/t/token","authorization_endpoint":"https://login.microsoftonline.com/t/a","issuer":"https://login.microsoftonline.com/t/v2.0"}`
	} else if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.body = string(body)
		a.mu.Unlock()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// TestSecurity: a source proves who it is by a shared key, or by a token for a client secret.
func TestSecurity(t *testing.T) {
	t.Parallel()
	for _, identity := range []bool{false, true} {
		f := newFake(t)
		f.publish("", "a", "1")
		f.refuse["token"] = true
		s := f.source(nil)
		a := new(authority)
		if identity {
			s.Close()
			var err error
			s, err = newSource(&config.Consumer{AzureServiceBus: config.AzureConsumer{
				UseAzureIdentity: true, FullyQualifiedNamespace: "gyro.servicebus.windows.net", TenantID: "t", ClientID: "c", ClientSecret: "hush",
				Queues: []string{"events"}, MaxConcurrentCalls: 1, MaxReceiveMessages: 1, MethodProperty: "centrifugo-method",
			}}, &azservicebus.ClientOptions{NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", f.Addr().String())
			}}, &azidentity.ClientSecretCredentialOptions{ClientOptions: azcore.ClientOptions{Transport: a}, DisableInstanceDiscovery: true})
			if err != nil {
				t.Fatal(err)
			}
		}
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
		wait.Until(t, "refusal", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
		f.do(func() { f.refuse["token"] = false })
		node.Await(t, 1)
		token := look(f, func() string { return f.tokens[0] })
		switch {
		case identity:
			if token != "jwt amqps://gyro.servicebus.windows.net/events the-token" || !strings.Contains(a.body, "client_secret=hush") {
				t.Errorf("put %s for %s", token, a.body)
			}
		case !strings.HasPrefix(token, "servicebus.windows.net:sastoken amqp://127.0.0.1") || !strings.Contains(token, "skn=gyro") || strings.Contains(token, "hush"):
			t.Errorf("put %s", token)
		}
	}
}

// TestStart: what is wrong is told at the start, without secrets.
func TestStart(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]config.AzureConsumer{
		"connection_string": {ConnectionString: "SharedAccessKeyName=k;SharedAccessKey=hush"},
		"tenant_id":         {UseAzureIdentity: true, FullyQualifiedNamespace: "n", TenantID: "no tenant", ClientID: "c", ClientSecret: "hush"},
	} {
		if _, err := New(&config.Consumer{AzureServiceBus: c}); err == nil || !strings.HasPrefix(err.Error(), want+":") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestProbe: it peeks at the queue, or tells which option keeps the source from it.
func TestProbe(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.publish("", "ch", "1")
	if err := f.source(nil).Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if peeked := look(f, func() []string { return f.peeked }); !slices.Equal(peeked, []string{"events"}) || len(f.left("events")) != 1 {
		t.Errorf("peeked at %q", peeked)
	}
	for what, want := range map[string]string{"token": "connection_string: queue events", "peek": "queues: queue events"} {
		f.do(func() { f.refuse = map[string]bool{what: true} })
		if err := f.source(nil).Probe(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}
