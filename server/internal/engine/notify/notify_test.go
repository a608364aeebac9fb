package notify

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

// node notes the keys that it shall ask for. Clients track those that begin with "t".
type node struct {
	t        *testing.T
	log      *logtest.Buffer
	notified chan string
	received chan Received
}

func newNode(t *testing.T) *node {
	return &node{t: t, log: new(logtest.Buffer), notified: make(chan string, 100), received: make(chan Received, 100)}
}

func (n *node) config() Config {
	return Config{
		Notify: func(ch string, keys ...string) (tracked int) {
			for _, key := range keys {
				if strings.HasPrefix(key, "t") {
					tracked++
				}
			}
			n.notified <- ch + " " + strings.Join(keys, ",")
			return tracked
		},
		Observe: func(r *Received) { n.received <- *r },
		Logger:  slog.New(slog.NewTextHandler(n.log, nil)),
	}
}

// receiver is what an edited configuration describes.
func (n *node) receiver(edit func(*config.PollNotification)) *Receiver {
	n.t.Helper()
	cfg := config.DefaultConfig()
	cfg.SharedPoll.Notification.Enabled = true
	cfg.SharedPoll.Notification.Redis.ConnectTimeout = wait.Limit
	edit(&cfg.SharedPoll.Notification)
	r, err := New(cfg, n.config())
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

func (n *node) start(edit func(*config.PollNotification)) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), wait.Limit)
	defer cancel()
	r := n.receiver(edit)
	if err := r.Start(ctx); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(r.Close)
}

func (n *node) want(want string) {
	n.t.Helper()
	select {
	case got := <-n.notified:
		if got != want {
			n.t.Errorf("got %q, want %q", got, want)
		}
	case <-time.After(wait.Limit):
		n.t.Fatalf("%q does not come; log:\n%s", want, n.log)
	}
}

func (n *node) awaitLog(want string) {
	n.t.Helper()
	if !n.log.Await(func(log string) bool { return strings.Contains(log, want) }) {
		n.t.Fatalf("%q is not in the log:\n%s", want, n.log)
	}
}

// What messages mean, and which are ignored with a line of the log that says why.
func TestTake(t *testing.T) {
	item := func(ch, key string) string { return fmt.Sprintf(`{"channel":%q,"key":%q}`, ch, key) }
	items := func(list ...string) string { return `{"items":[` + strings.Join(list, ",") + `]}` }
	long := strings.Repeat("x", 1025)
	for name, tt := range map[string]struct {
		data string
		want Received
		keys string // sorted
		log  string
	}{
		"several":        {items(item("p:a", "t1"), item("p:b", "t1"), item("p:a", "z"), item("p:a", "t1")), Received{Tracked: 3, Ignored: 1}, "p:a t1,z,t1; p:b t1", ""},
		"further fields": {`{"v":1,"items":[{"channel":"c","key":"t","version":3}]}`, Received{Tracked: 1}, "c t", ""},
		"no JSON":        {`items`, Received{Malformed: true}, "", "invalid character"},
		"more JSON":      {items(item("c", "t")) + "{}", Received{Malformed: true}, "", "after top-level value"},
		"nothing":        {``, Received{Malformed: true}, "", "unexpected end"},
		"null":           {`null`, Received{Malformed: true}, "", "it has no items"},
		"a list":         {`[]`, Received{Malformed: true}, "", "cannot unmarshal array"},
		"no items":       {`{"items":[]}`, Received{Malformed: true}, "", "it has no items"},
		"a number":       {`{"items":[{"channel":"c","key":1}]}`, Received{Malformed: true}, "", "cannot unmarshal number"},
		"most items":     {items(slices.Repeat([]string{item("c", "t")}, maxItems)...), Received{Tracked: maxItems}, "c" + " " + strings.Repeat(",t", maxItems)[1:], ""},
		"too many":       {items(slices.Repeat([]string{item("c", "t")}, maxItems+1)...), Received{Malformed: true}, "", "10001 items are more than 10000"},
		"too large":      {strings.Repeat(" ", maxMessage) + "{}", Received{Malformed: true}, "", "1048578 bytes are more than 1048576"},
		"no channel":     {items(item("", "t"), item("c", "t"), item("", "")), Received{Tracked: 1, Invalid: 2}, "c t", "items=2 reason=\"it has no channel\""},
		"no key":         {items(item("c", "")), Received{Invalid: 1}, "", "it has no key"},
		"long key":       {items(item("c", long[1:]), item("c", long)), Received{Ignored: 1, Invalid: 1}, "c " + long[1:], "a key of 1025 bytes is longer than 1024"},
		"long channel":   {items(item(long[:256], "t"), item(long[:255], "t")), Received{Tracked: 1, Invalid: 1}, long[:255] + " t", "longer than channel.max_length, 255"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.receiver(func(c *config.PollNotification) { c.Type = engines.TypeNATS }).take([]byte(tt.data))
			var keys []string
			for len(n.notified) > 0 {
				keys = append(keys, <-n.notified)
			}
			slices.Sort(keys)
			if got := strings.Join(keys, "; "); got != tt.keys {
				t.Errorf("keys %.200q, want %.200q", got, tt.keys)
			}
			if got := <-n.received; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if tt.log != "" {
				n.awaitLog(tt.log)
			} else if log := n.log.String(); log != "" {
				t.Errorf("the log has %s", log)
			}
		})
	}
}

// What a configuration lacks is told with its key, before anything connects.
func TestNew(t *testing.T) {
	if r, err := New(config.DefaultConfig(), Config{}); r != nil || err != nil || r.Start(t.Context()) != nil {
		t.Errorf("without notifications: %v, %v", r, err)
	}
	for want, edit := range map[string]func(*config.PollNotification){
		"shared_poll.notification.type":             func(*config.PollNotification) {},
		"shared_poll.notification.redis.address[0]": func(c *config.PollNotification) { c.Type, c.Redis.Address = "redis", []string{"http://x"} },
		"shared_poll.notification.redis.address":    func(c *config.PollNotification) { c.Type, c.Redis.Address = "redis", []string{"a:1", "b:1"} },
		"shared_poll.notification.redis.tls.cert_pem": func(c *config.PollNotification) {
			c.Type, c.Redis.TLS = "redis", config.TLS{Enabled: true, CertPEM: "x"}
		},
		"shared_poll.notification.nats.tls.cert_pem":   func(c *config.PollNotification) { c.Type, c.NATS.TLS = "nats", config.TLS{Enabled: true, CertPEM: "x"} },
		"shared_poll.notification.redis.sentinel_addr": func(c *config.PollNotification) { c.Type, c.Redis.SentinelAddress = "redis", []string{"a:1", "b:1"} },
	} {
		cfg := config.DefaultConfig()
		cfg.SharedPoll.Notification.Enabled = true
		edit(&cfg.SharedPoll.Notification)
		if _, err := New(cfg, Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Notifications come from Redis, also after it was away; what is wrong is told at the start.
func TestRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{Password: "right"})
	on := func(c *config.PollNotification) {
		c.Type, c.Channel, c.Redis.Address, c.Redis.Password = "redis", "changes", []string{redis.Addr()}, "right"
	}
	n := newNode(t)
	n.start(on)
	publish := func(ch, data string) string { return redis.Do("PUBLISH", ch, data) }
	publish("shared_poll_notify", `{"items":[{"channel":"no","key":"t"}]}`)
	if got := publish("changes", `{"items":[{"channel":"p:a","key":"t1"},{"channel":"p:a","key":"2"}]}`); got != "1" {
		t.Errorf("%s receivers", got)
	}
	n.want("p:a t1,2")
	redis.Kill()
	n.awaitLog("notifications of shared poll keys do not come")
	redis.Restart(false)
	n.awaitLog("notifications of shared poll keys come again")
	publish("changes", `{"items":[{"channel":"p:a","key":"t2"}]}`)
	n.want("p:a t2")

	redis.Do("ACL", "SETUSER", "guest", "on", ">right", "+@all", "resetchannels", "&other")
	for want, edit := range map[string]func(*config.PollNotification){
		"shared_poll.notification.redis.password: ": func(c *config.PollNotification) { c.Redis.Password = "hush" },
		"shared_poll.notification.redis.address: ":  func(c *config.PollNotification) { c.Redis.Address = []string{"127.0.0.1:1"} },
		"shared_poll.notification.channel: ":        func(c *config.PollNotification) { c.Redis.User = "guest" },
	} {
		err := n.receiver(func(c *config.PollNotification) { on(c); edit(c) }).Start(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// In a Cluster, it does not matter which node a message is published on.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, redistest.Options{})
	n := newNode(t)
	n.start(func(c *config.PollNotification) {
		c.Type, c.Redis.ClusterAddress = "redis", []string{strings.Join(cluster.Addresses(), ",")}
	})
	for i, s := range cluster.Nodes {
		// Messages go to the nodes that a node is connected with: those of a new Cluster may still be about to be.
		wait.Until(t, "connections between the nodes", func() bool {
			nodes := s.Do("CLUSTER", "NODES")
			return strings.Count(nodes, " connected") == len(cluster.Nodes) && !strings.Contains(nodes, "handshake")
		})
		s.Do("PUBLISH", "shared_poll_notify", fmt.Sprintf(`{"items":[{"channel":"p:a","key":"t%d"}]}`, i))
		n.want(fmt.Sprintf("p:a t%d", i))
	}
}

// Notifications come from NATS, also after it was away; what is wrong is told at the start.
func TestNATS(t *testing.T) {
	t.Parallel()
	port, err := porttest.Free() // nobody takes it while the server is away
	if err != nil {
		t.Fatal(err)
	}
	start := func() *server.Server {
		return natstest.Run(t, func(o *server.Options) {
			o.Port, o.Users = port, []*server.User{
				{Username: "gyro", Password: "right"},
				{Username: "guest", Password: "right", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"other"}}}},
			}
		})
	}
	s := start()
	url := s.ClientURL()
	on := func(c *config.PollNotification) {
		c.Type, c.NATS.URL, c.NATS.Username, c.NATS.Password = "nats", url, "gyro", "right"
	}
	n := newNode(t)
	n.start(on)
	publish := func(data string) {
		t.Helper()
		conn, err := nats.Connect(url, nats.UserInfo("gyro", "right"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.Publish("shared_poll_notify", []byte(data)); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	publish(`{"items":[{"channel":"p:a","key":"t1"}]}`)
	n.want("p:a t1")
	s.Shutdown()
	s.WaitForShutdown()
	n.awaitLog("notifications of shared poll keys do not come")
	start()
	n.awaitLog("notifications of shared poll keys come again")
	publish(`{"items":[{"channel":"p:a","key":"t2"}]}`)
	n.want("p:a t2")

	for want, edit := range map[string]func(*config.PollNotification){
		"shared_poll.notification.nats.username, password: ": func(c *config.PollNotification) { c.NATS.Password = "hush" },
		"shared_poll.notification.nats.url: ":                func(c *config.PollNotification) { c.NATS.URL = "nats://127.0.0.1:1" },
		"shared_poll.notification.channel: ":                 func(c *config.PollNotification) { c.NATS.Username = "guest" },
	} {
		err := n.receiver(func(c *config.PollNotification) { on(c); edit(c) }).Start(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
