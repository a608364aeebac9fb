package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/programtest"
	"github.com/gyrohq/gyro/protocol"
)

// fault is what happens to a cluster, and what is noticed of it.
type fault struct {
	// alerts fire within the time after the begin of the fault, and end within the same time after its end. maybe are others that may fire.
	alerts, maybe []string
	within        time.Duration
	// happen returns when the metrics show the fault. What it returns ends the fault, and returns when the metrics show that.
	happen func(*cluster) (end func())
	// goesOn: what happened once happens in each step. Otherwise it has happened once, and what gauges show stays.
	goesOn bool
}

// faults are what the alerts watch for. Their order is that in which they happen to one cluster.
var faults = []fault{
	{alerts: []string{"GyroNodeDown"}, within: 90 * time.Second, happen: func(c *cluster) func() {
		c.nodes[1].kill()
		return func() { c.run(c.nodes[1]) }
	}},
	{
		// Nodes that hear nothing may take each other for lost, and new connections to Redis count.
		alerts: []string{"GyroNodeNotReady", "GyroShardNotDelivering", "GyroRedisErrors", "GyroAPIFails"}, within: 150 * time.Second, goesOn: true,
		maybe: []string{"GyroClusterDivided", "GyroReconnects", "GyroAPIErrors", "GyroConsumerErrors"}, happen: silentRedis,
	},
	{alerts: []string{"GyroReconnects"}, within: 10 * time.Minute, maybe: []string{"GyroRedisErrors"}, happen: func(c *cluster) func() {
		const series = `gyro_broker_reconnects_total{broker_name="",`
		for range 5 {
			before := c.value(series)
			wait.Until(c.T, "another connection", func() bool {
				c.redis.Do("CLIENT", "KILL", "TYPE", "pubsub") // a connection that is not subscribed yet is none of them
				return wait.Within(5*time.Second, func() bool { return c.value(series) > before })
			})
		}
		c.delivers()
		return func() {}
	}},
	{alerts: []string{"GyroShardSlow"}, within: 3 * time.Minute, maybe: []string{"GyroRedisErrors", "GyroReconnects"}, happen: func(c *cluster) func() {
		wait.Until(c.T, "a slow canary", func() bool {
			c.redis.Do("CLIENT", "PAUSE", "1500", "ALL") // a canary begins each second, and may take three
			return wait.Within(4*time.Second, func() bool { return c.suffers("GyroShardSlow") })
		})
		return func() {}
	}},
	{alerts: []string{"GyroRefusals"}, within: 11 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		cl := c.connect(sdk.Options{})
		c.grows(`gyro_client_num_reply_errors{channel_namespace="",code="102",method="subscribe"}`, 20, func() {
			for i := range 20 {
				subscribe(c, cl, fmt.Sprintf("unknown:%d", i), nil)
			}
		})
		return cl.Close
	}},
	{alerts: []string{"GyroThrownOut"}, within: 5*time.Minute + step, happen: func(c *cluster) func() {
		c.grows(`gyro_client_num_server_disconnects{code="3500"}`, 20, func() { c.tokens(20, "another secret") })
		return func() {}
	}},
	{
		alerts: []string{"GyroSlowClients", "GyroDisconnects"}, within: 5*time.Minute + step, goesOn: true,
		happen: func(c *cluster) func() { return c.stalled(15) },
	},
	{alerts: []string{"GyroChurn"}, maybe: []string{"GyroClientsGone"}, within: 3 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		c.crowd(60)()
		return c.crowd(60)
	}},
	{alerts: []string{"GyroRecoveriesLost", "GyroRecoveriesFail"}, within: 12 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		cl := c.connect(sdk.Options{})
		c.grows(`gyro_client_recover{channel_namespace="",has_recovered_publications="no",recovered="no"}`, 20, func() {
			for i := range 20 {
				subscribe(c, cl, strconv.Itoa(i), &protocol.StreamPosition{Offset: 5, Epoch: "lost"})
			}
		})
		return cl.Close
	}},
	{alerts: []string{"GyroNodeFull"}, maybe: []string{"GyroClientsGone"}, within: 5*time.Minute + step, happen: func(c *cluster) func() {
		leave := c.crowd(70)
		cl, err := sdk.New("ws"+strings.TrimPrefix(c.nodes[0].url("/connection/websocket"), "http"), sdk.Options{})
		if err != nil {
			c.Fatal(err)
		}
		defer cl.Close()
		ended, cancel := context.WithCancel(c.Context())
		cancel()
		c.grows("gyro_node_client_connection_limit", 1, func() { _ = cl.Connect(ended) }) // it is refused later
		return leave
	}},
	{alerts: []string{"GyroDescriptors"}, within: 90 * time.Second, happen: func(c *cluster) func() {
		limit := func(n int) {
			pid := strconv.Itoa(c.nodes[0].cmd.Process.Pid)
			if out, err := exec.Command("prlimit", "--pid", pid, "--nofile="+strconv.Itoa(n)+":").CombinedOutput(); err != nil {
				c.Fatalf("prlimit: %v: %s", err, out)
			}
		}
		before := int(c.value("process_max_fds"))
		wait.Until(c.T, "few descriptors that are left", func() bool {
			limit(int(c.value("process_open_fds")) + 2)
			return c.suffers("GyroDescriptors")
		})
		return func() { limit(before) }
	}},
	{alerts: []string{"GyroAPIErrors"}, within: 11 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		c.grows(`gyro_api_command_errors_total{error="102",method="publish",protocol="http"}`, 20, func() {
			for range 20 {
				c.api("publish", config{"channel": "unknown:1", "data": 1})
			}
		})
		return func() {}
	}},
	{alerts: []string{"GyroProxyErrors", "GyroRefusals"}, within: 11 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		return c.calls("failing:x", 20, `gyro_proxy_errors{name="fails",protocol="http",type="rpc"}`)
	}},
	{
		alerts: []string{"GyroPollErrors"}, maybe: []string{"GyroProxyErrors"}, within: 6 * time.Minute, goesOn: true,
		happen: func(c *cluster) func() { return c.poll("prices:1", "milk") },
	},
	{alerts: []string{"GyroProxySlow", "GyroCommandsSlow"}, within: 11 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		return c.calls("slow:x", 3, `gyro_client_command_duration_seconds_count{channel_namespace="",method="rpc"}`)
	}},
	{alerts: []string{"GyroPublishToWriteSlow"}, within: 6 * time.Minute, goesOn: true, happen: func(c *cluster) func() {
		cl := c.connect(sdk.Options{})
		if err := subscribe(c, cl, "late:1", nil); err != nil {
			c.Fatal(err)
		}
		c.grows("gyro_node_publish_to_write_seconds_count", 1, func() { c.api("publish", config{"channel": "late:1", "data": 1}) })
		return cl.Close
	}},
	{alerts: []string{"GyroConsumerErrors"}, within: 5*time.Minute + step, happen: func(c *cluster) func() {
		wait.Until(c.T, "a message that is given up", func() bool {
			before := c.given()
			c.redis.Do("XADD", "gyro-events", "*", "method", "publish", "payload", "{")
			return wait.Within(time.Second, func() bool { return c.given() > before })
		})
		return func() {}
	}},
	{
		// Messages for channels of the second Redis fail and wait.
		alerts: []string{"GyroConsumerLag", "GyroUserStatusErrors"}, within: 11 * time.Minute, goesOn: true,
		maybe: []string{
			"GyroNodeNotReady", "GyroShardNotDelivering", "GyroRedisErrors", "GyroConsumerErrors", "GyroAPIErrors", "GyroAPIFails", "GyroReconnects",
		},
		happen: silentAside,
	},
	{alerts: []string{"GyroCertificateExpires", "GyroCertificateEnds"}, within: 30 * time.Minute, happen: func(c *cluster) func() {
		// The fault begins after the quiet time of a film. A quarter of the certificate's time is left then.
		const left = 25 * time.Minute
		c.renew(time.Now().Add(quiet+left), 4*left)
		return func() { c.renew(time.Now().Add(90*24*time.Hour), 91*24*time.Hour) }
	}},
	{alerts: []string{"GyroCertificateRefused"}, within: 90 * time.Second, happen: func(c *cluster) func() {
		m := c.nodes[0]
		if err := os.WriteFile(m.config+".cert", []byte("garbage"), 0o600); err != nil {
			c.Fatal(err)
		}
		m.reload(c.T)
		const line = `gyro_tls_last_load_successful{host="",key="grpc_api.tls.cert_pem"} `
		c.sees("a file that is refused", line+"0")
		return func() {
			c.certify(m, time.Now().Add(90*24*time.Hour), 91*24*time.Hour)
			m.reload(c.T)
			c.sees("a file that is taken", line+"1")
		}
	}},
}

// otherwise are the alerts that no fault of the list above makes fire, and the test that does.
var otherwise = map[string]string{
	"GyroClusterDivided":      "Clusters",
	"GyroClientsGone":         "ClientsGone",
	"GyroRestarts":            "Restarts",
	"GyroReloadRefused":       "Reloads",
	"GyroPreviousKey":         "Rotation",
	"GyroLogDropped":          "LostLines",
	"GyroClockSkew":           "Skewed",
	"GyroMessagesDropped":     "Overloaded",
	"GyroBroadcastSlow":       "Overloaded",
	"GyroQueuesGrow":          "Overloaded",
	"GyroOldBytes":            "Overloaded",
	"GyroMemory":              "Overloaded",
	"GyroNATSMessagesDropped": "NATS",
	"GyroNATSServerAway":      "NATS",
	"GyroPanics":              "", // a bug: no client, backend or operator can cause a panic that is known, and the server has no code of an application
}

// tests make alerts fire, each with a cluster of its own.
var tests = map[string]func(*testing.T, *cluster){
	"Faults": provoked, "Clusters": clusters, "ClientsGone": clientsGone, "Restarts": restarts, "Rotation": rotation, "Reloads": reloads,
	"LostLines": lostLines, "Skewed": skewed, "Overloaded": overloaded, "NATS": natsServers,
}

// pace are the alerts of which a busy machine may show the fault in one look, which a film makes last.
var pace = []string{"GyroShardSlow", "GyroClockSkew", "GyroCommandsSlow", "GyroProxySlow", "GyroPublishToWriteSlow", "GyroBroadcastSlow"}

// tries is how often a fault happens until an alert that fires as well is held to be its work: what a busy machine does by chance, such as
// a connection that ends, does not happen each time.
const tries = 3

// quiet is how long a film is quiet before a fault and after it.
const quiet = 31 * time.Minute

// TestProvoked lets the faults happen to running clusters. The rules are asked by the query engine of Prometheus, about what the nodes answer
// to scrapes.
func TestProvoked(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the server")
	}
	program, err := programtest.Server(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for alert, name := range otherwise {
		if name != "" && tests[name] == nil {
			t.Errorf("%s: there is no test %s", alert, name)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newCluster(t, program))
		})
	}
}

// provoked lets the faults happen to one cluster. Its film has half an hour before each fault, the fault, and the same time after it.
func provoked(t *testing.T, c *cluster) {
	covered := make(map[string]bool)
	for _, f := range faults {
		for _, name := range f.alerts {
			covered[name] = true
		}
		t.Run(f.alerts[0], func(t *testing.T) {
			c.T = t
			var each []string // the alerts that fired as well each time
			for n := range tries {
				others := c.provokes(&f)
				if n > 0 {
					others = slices.DeleteFunc(others, func(name string) bool { return !slices.Contains(each, name) })
				}
				if each = others; len(each) == 0 {
					return
				}
			}
			t.Errorf("each of %d times, %v fire as well", tries, each)
		})
	}
	for _, r := range theRules(t) {
		if _, other := otherwise[r.Alert]; covered[r.Alert] == other {
			t.Errorf("%s: a fault makes it fire: %v, and something else: %v", r.Alert, covered[r.Alert], other)
		}
	}
}

// provokes lets a fault happen, and returns the alerts that fire and should not.
func (c *cluster) provokes(f *fault) (others []string) {
	c.Helper()
	c.delivers()
	film := newFilm(c.T, time.Now())
	may := besides(pace, f.alerts)
	before := c.calm(may)
	c.shown = nil
	end := f.happen(c)
	with := c.shown // if it may be over a moment later
	if with == nil {
		with = c.calm(slices.Concat(f.alerts, f.maybe, pace))
	}
	end()
	after := c.calm(may)
	film.still(before, quiet)
	begin := film.now
	if f.goesOn {
		film.goesOn(before, with, f.within)
	} else {
		film.still(with, f.within)
	}
	gone := film.now
	film.still(after, quiet)
	return f.judge(film, begin, gone)
}

// calm returns a look at which no alerts have a reason but those that may have one. A busy machine gives others a reason for moments.
func (c *cluster) calm(may []string, others ...*member) (l look) {
	c.Helper()
	var reasons []string
	if !wait.Within(wait.Limit, func() bool {
		l = c.look(others...)
		reasons = besides(l.wrong(c.T), may)
		return len(reasons) == 0
	}) {
		c.Fatalf("not within %v: an end of the reasons for %v", wait.Limit, reasons)
	}
	return l
}

// suffers takes the look at a fault that may be over a moment later, and tells whether one alert has a reason there and no other.
func (c *cluster) suffers(alert string) bool {
	c.Helper()
	c.shown = c.look()
	wrong := c.shown.wrong(c.T)
	return slices.Contains(wrong, alert) && len(besides(besides(wrong, pace), []string{alert})) == 0
}

// wrong returns the alerts for which one look is enough of a reason if it lasts.
func (l look) wrong(t *testing.T) (names []string) {
	t.Helper()
	s, now := newStore(), time.Duration(time.Now().UnixNano())
	for of, text := range l {
		s.scraped(t, of, text, now-step)
		s.scraped(t, of, text, now)
		if text == "" { // the rule asks whether the node has ever answered
			names = append(names, "GyroNodeDown")
		}
	}
	for _, r := range theRules(t) {
		if len(s.at(t, r.Expr, now)) > 0 {
			names = append(names, r.Alert)
		}
	}
	return names
}

// besides returns the names that are not among others.
func besides(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// judge holds what fired to what should fire, and returns what fired as well.
func (f *fault) judge(film *film, begin, gone time.Duration) (others []string) {
	film.Helper()
	fired := film.alerts()
	for _, name := range f.alerts {
		times := fired[name]
		if len(times) == 0 {
			film.Errorf("%s does not fire", name)
			continue
		}
		film.Logf("%s fires %v after the begin, until %v after the end", name, times[0]-begin, times[len(times)-1]-gone)
		if times[0] <= begin || times[len(times)-1] > gone+f.within {
			film.Errorf("%s fires from %v after the begin to %v after the end", name, times[0]-begin, times[len(times)-1]-gone)
		}
	}
	for _, name := range besides(slices.Sorted(maps.Keys(fired)), slices.Concat(f.alerts, f.maybe, pace)) {
		film.Logf("%s fires as well, %v after the begin", name, fired[name][0]-begin)
		others = append(others, name)
	}
	return others
}

// clusters: a node that does not know the others of its cluster is noticed, and one of another cluster is none of them.
func clusters(t *testing.T, c *cluster) {
	for cluster, divided := range map[string]bool{"production": true, "staging": false} {
		other := c.start(target{Cluster: cluster, Instance: "c"}, "other", nil)
		wait.Until(t, "the number of nodes that it knows", func() bool { return other.value("gyro_node_num_nodes") >= 1 })
		may := pace
		if divided {
			may = append([]string{"GyroClusterDivided"}, pace...)
		}
		film := newFilm(t, time.Now())
		film.still(c.calm(may, other), 2*time.Minute)
		fired := film.alerts()
		if others := besides(slices.Sorted(maps.Keys(fired)), pace); slices.Contains(others, "GyroClusterDivided") != divided || len(others) > 1 {
			t.Errorf("a node of the cluster %s: %v fire", cluster, others)
		}
		other.kill()
	}
}

// clientsGone: that most clients are gone is noticed although all nodes are well.
func clientsGone(t *testing.T, c *cluster) {
	film := newFilm(t, time.Now())
	leave := c.crowd(60)
	film.still(c.look(), quiet)
	begin := film.now
	leave()
	film.still(c.look(), quiet)
	if times := film.alerts()["GyroClientsGone"]; len(times) == 0 || times[0] <= begin || times[0] > begin+2*time.Minute {
		t.Errorf("it fires at %v, the clients have gone at %v", times, begin)
	}
}

// restarts: a node that starts again and again is noticed, one restart is not, and neither seems to be clients that do not stay.
func restarts(t *testing.T, c *cluster) {
	leave := c.crowd(60)
	for _, times := range []int{1, 3} {
		film := newFilm(t, time.Now())
		film.still(c.look(), quiet)
		for range times {
			c.nodes[1].kill()
			c.run(c.nodes[1])
			film.still(c.look(), time.Minute)
		}
		film.still(c.look(), quiet)
		if fired := film.alerts(); (fired["GyroRestarts"] != nil) != (times > 2) || fired["GyroChurn"] != nil {
			t.Errorf("%d restarts: %v fire", times, fired)
		}
	}
	leave()
}

// rotation: tokens of the previous key are noticed.
func rotation(t *testing.T, c *cluster) {
	const tokens = "token_verified_by_previous_key_total"
	before := c.look().only("gyro_" + tokens)
	c.grows("gyro_"+tokens, 1, func() { c.tokens(1, previous) })
	film := newFilm(t, time.Now())
	film.goesOn(before, c.look().only("gyro_"+tokens), 6*time.Hour+time.Minute)
	if film.alerts()["GyroPreviousKey"] == nil {
		t.Error("tokens of the previous key are not noticed")
	}
}

// reloads: a configuration that is refused is noticed until a valid one is taken.
func reloads(t *testing.T, c *cluster) {
	const taken = "config_last_reload_successful"
	m := c.nodes[0]
	for _, valid := range []bool{false, true} {
		file, line := config{"client": config{"queue_max_size": "much"}}, "gyro_"+taken+" 0"
		if valid {
			file, line = c.configuration(m, "gyro"), "gyro_"+taken+" 1"
		}
		m.write(t, file)
		m.reload(t)
		c.sees("the reload", line)
		film := newFilm(t, time.Now())
		film.still(c.look(), time.Minute)
		if fired := film.alerts()["GyroReloadRefused"]; (fired == nil) != valid {
			t.Errorf("a valid file: %v, and the alert fires at %v", valid, fired)
		}
	}
}

// lostLines: a node whose log cannot be written is noticed.
func lostLines(t *testing.T, c *cluster) {
	const lost = "log_dropped_lines_total"
	m := c.start(target{Cluster: "production", Instance: "c"}, "gyro", config{"log": config{"file": "/dev/full"}})
	before := c.look(m)
	m.reload(t) // which leaves a line
	wait.Until(t, "a line that is lost", func() bool { return sum(m.scrape(), "gyro_"+lost) > sum(before[m.target], "gyro_"+lost) })
	film := newFilm(t, time.Now())
	film.goesOn(before, c.look(m), time.Minute)
	if film.alerts()["GyroLogDropped"] == nil {
		t.Error("lost lines are not noticed")
	}
}

// delivers waits until the nodes are ready and have nothing to tell of.
func (c *cluster) delivers() {
	c.Helper()
	for _, m := range c.nodes {
		wait.Until(c.T, "a node that delivers", func() bool {
			text := m.scrape()
			return strings.Contains(text, "\ngyro_node_ready 1\n") && strings.Contains(text, "\ngyro_node_num_nodes 2\n") &&
				strings.Contains(text, "\ngyro_node_num_clients 0\n") && len(lines(text, `gyro_broker_canary_delay_seconds{broker_name="`)) == 2
		})
	}
}

// silentRedis: Redis hangs, and publishes fail.
func silentRedis(c *cluster) func() {
	c.redis.Stop()
	failed := `gyro_api_command_errors_total{error="100",method="publish",protocol="http"}`
	c.sees("a node that is not ready", "gyro_node_ready 0")
	c.grows("gyro_broker_redis_pub_sub_errors", 2, func() {})
	c.grows(failed, 5, func() { together(5, func(int) { c.api("publish", config{"channel": "a", "data": 1}) }) })
	wait.Until(c.T, "the other node", func() bool { return strings.Contains(c.nodes[1].scrape(), "\ngyro_node_ready 0\n") })
	return func() {
		c.redis.Continue()
		c.delivers()
	}
}

// silentAside: the second Redis hangs.
func silentAside(c *cluster) func() {
	c.aside.Stop()
	c.grows(`gyro_user_status_calls_total{kind="get",result="error"}`, 10, func() {
		together(10, func(i int) { c.api("get_user_status", config{"users": []string{strconv.Itoa(i)}}) })
	})
	for range 200 {
		c.redis.Do("XADD", "gyro-events", "*", "method", "publish", "payload", `{"channel":"aside:1","data":1}`)
	}
	const waiting = "gyro_consumers_lag" // each node asks from time to time
	wait.Until(c.T, "messages that wait", func() bool { return c.value(waiting) > 100 })
	return func() {
		c.aside.Continue()
		wait.Until(c.T, "messages that are done", func() bool {
			return !slices.ContainsFunc(c.nodes, func(m *member) bool { return m.value(waiting) != 0 })
		})
		c.delivers()
	}
}

// together calls a function n times at once, and returns when all calls have.
func together(n int, do func(int)) {
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { do(i) })
	}
	calls.Wait()
}

// subscribe subscribes to a channel, after a position if there is one, and returns what the server says.
func subscribe(c *cluster, cl *sdk.Client, channel string, since *protocol.StreamPosition) error {
	c.Helper()
	sub, err := cl.NewSubscription(channel, &sdk.SubscribeOptions{Since: since})
	if err != nil {
		c.Fatal(err)
	}
	sub.Subscribe()
	ctx, cancel := context.WithTimeout(c.Context(), wait.Limit)
	defer cancel()
	return sub.Ready(ctx)
}

// tokens connects clients one after the other with tokens by a secret.
func (c *cluster) tokens(n int, secret string) {
	c.Helper()
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	text := part(`{"alg":"HS256","typ":"JWT"}`) + "." + part(`{"sub":"ann"}`)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	token := text + "." + part(string(mac.Sum(nil)))
	for range n {
		cl, err := sdk.New("ws"+strings.TrimPrefix(c.nodes[0].url("/connection/websocket"), "http"), sdk.Options{Token: token})
		if err != nil {
			c.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(c.Context(), wait.Limit)
		_ = cl.Connect(ctx) // it may be refused
		cancel()
		cl.Close()
	}
}

// calls has a client call a method of the backend n times, until a counter has grown by as much.
func (c *cluster) calls(method string, n int, series string) func() {
	cl := c.connect(sdk.Options{Timeout: wait.Limit})
	c.grows(series, float64(n), func() {
		together(n, func(int) { _, _ = cl.RPC(c.Context(), method, []byte("{}")) }) // the backend may fail
	})
	return cl.Close
}

// poll tracks a key, until the backend has not answered for some time.
func (c *cluster) poll(channel, key string) func() {
	c.Helper()
	cl := c.connect(sdk.Options{})
	mac := func(parts ...string) string {
		h := hmac.New(sha256.New, []byte(secret))
		h.Write([]byte(strings.Join(parts, "\x00")))
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	keys := fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
	poll, err := cl.NewPoll(channel, nil)
	if err != nil {
		c.Fatal(err)
	}
	if err := poll.Track([]string{key}, now+":0:"+mac(now, "0", "", channel, keys)); err != nil {
		c.Fatal(err)
	}
	c.grows("gyro_shared_poll_handler_error_count", 10, poll.Subscribe)
	return cl.Close
}

// given returns how many messages the consumers of all nodes have given up.
func (c *cluster) given() (sum int) {
	for _, m := range c.nodes {
		for _, line := range lines(m.scrape(), "gyro_consumers_given_up_total") {
			var n int
			if _, err := fmt.Sscanf(line[strings.LastIndexByte(line, ' '):], "%d", &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// gated is a connection from which nothing is read while the gate is closed.
type gated struct {
	net.Conn
	gate *sync.RWMutex
}

// Read implements net.Conn.
func (g gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.gate.RLock()
	defer g.gate.RUnlock()
	return n, err
}

// stalled connects clients that do not read, and publishes until they are disconnected.
func (c *cluster) stalled(n int) func() {
	c.Helper()
	var gate sync.RWMutex
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return gated{conn, &gate}, conn.(*net.TCPConn).SetReadBuffer(4096)
	}
	var all []*sdk.Client
	for range n {
		cl := c.connect(sdk.Options{DialContext: dial})
		if err := subscribe(c, cl, "heavy", nil); err != nil {
			c.Fatal(err)
		}
		all = append(all, cl)
	}
	gate.Lock()
	data := strings.Repeat("x", 60000) // below queue_max_size
	c.grows(`gyro_client_refusals_total{limit="queue_size"}`, float64(n), func() {
		for range 200 {
			c.api("publish", config{"channel": "heavy", "data": data})
		}
	})
	return func() {
		gate.Unlock()
		for _, cl := range all {
			cl.Close()
		}
		c.sees("nobody", "gyro_node_num_clients 0")
	}
}

// certify makes the certificate of a node, which ends at a time and is valid for so long.
func (c *cluster) certify(m *member, end time.Time, valid time.Duration) {
	c.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(end.UnixNano()), NotBefore: end.Add(-valid), NotAfter: end, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		c.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{".key": {Type: "PRIVATE KEY", Bytes: private}, ".cert": {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(m.config+name, pem.EncodeToMemory(block), 0o600); err != nil {
			c.Fatal(err)
		}
	}
}

// renew gives the first node another certificate, and returns when it is in force.
func (c *cluster) renew(end time.Time, valid time.Duration) {
	c.Helper()
	c.certify(c.nodes[0], end, valid)
	c.nodes[0].reload(c.T)
	wait.Until(c.T, "the certificate", func() bool {
		return int64(c.value("gyro_tls_certificate_expires_timestamp_seconds")) == end.Unix()
	})
}
