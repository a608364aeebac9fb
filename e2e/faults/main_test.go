// Package faults tests clusters of real gyro, Redis and NATS processes under faults: processes
// are killed or stopped, networks are cut, servers refuse. Subscribers of recoverable channels
// must get everything once and in order, or be told of a gap. Publishers must get true answers,
// and /health must say what is wrong.
//
// Without flags it runs the tests that are short enough for continuous integration:
//
//	go test ./e2e/faults -v                    # 2 to 3 minutes
//	go test ./e2e/faults -v -faults=all -timeout 30m
//	go test ./e2e/faults -v -run Storm -storm-clients 8000
//	go test ./e2e/faults -v -run Resubscribe -resubscribe-channels 100000
//	go test ./e2e/faults -v -run Sentinel -sentinel-rounds 20
//	go test ./e2e/faults -v -run Network -faults=all -cut 60s
//
// TestRandom makes schedules of faults from seeds. A failure prints the schedule and the command
// that repeats it. As timing differs, it may take several rounds to fail again. -only leaves out
// steps, to find the shortest schedule that still fails:
//
//	go test ./e2e/faults -v -run TestRandom/redis -seed 7 -rounds 50 -steps 8
//	go test ./e2e/faults -v -run TestRandom/redis -seed 7 -steps 8 -only 2,5
package faults

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/atlas"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/stand"
)

var (
	which          = flag.String("faults", "ci", "which faults: ci or all")
	sentinelRounds = flag.Int("sentinel-rounds", 2, "failovers of Sentinel in a row")
	longestCut     = flag.Duration("cut", 10*time.Second, "longest cut of the network with -faults=all")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The clusters wait more than they compute: run several at a time. The flag exists, so this
	// cannot fail.
	_ = flag.Set("test.parallel", "4")
	code := rig.Run(m)
	fmt.Print(table.String())
	os.Exit(code)
}

var table report

type report struct {
	mu   sync.Mutex
	rows []string
}

func (r *report) add(name string, span stand.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("%-44s %8d %6d %6d %6d %6d %6d %6d %8d %6d %6d %9s %8s  %v",
		name, span.Received, span.Lost, span.Duplicated, span.Told, span.Missed, span.Insufficient, span.Reconnects,
		span.Maps.Changes, span.Maps.Told, len(span.Maps.Wrong), span.Silence.Round(time.Millisecond), span.Back.Round(time.Millisecond), span.Answers))
}

func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return ""
	}
	header := fmt.Sprintf("%-44s %8s %6s %6s %6s %6s %6s %6s %8s %6s %6s %9s %8s  %s", "fault", "received", "lost", "dup", "told", "missed",
		"insuff", "reconn", "changes", "anew", "wrong", "silence", "back in", "publishers")
	return header + "\n" + strings.Join(r.rows, "\n") + "\n"
}

// fault is a fault of a cluster, and what it may cause.
type fault struct {
	name string
	// always: continuous integration runs it, too.
	always bool
	inject func(t *testing.T)

	// unfit is what /health of every node has to say; empty: it may say nothing.
	unfit string
	// told: streams are lost, and every subscriber has to be told of a gap.
	told bool
	// mayMiss: Redis may lose what it acknowledged. Then subscribers have to be told.
	mayMiss bool
	// forgets: Redis acknowledges what it neither keeps nor delivers: no node knows of it. The table shows it as lost.
	forgets bool
	// mayRepeat: without idempotency, a publication that got through may have been answered with an error, and be
	// published again.
	mayRepeat bool
	// failing: publishers have to be told errors; quiet: they must not.
	failing, quiet bool
	// silence is the longest that a subscriber may wait; 0: no limit.
	silence time.Duration
}

// expose exposes a cluster to faults, one after the other.
func expose(t *testing.T, s *stand.Stand, subscribers int, faults ...fault) {
	for _, f := range faults {
		if !f.always && *which != "all" {
			continue
		}
		ok := t.Run(f.name, func(t *testing.T) {
			s.Use(t)
			s.Begin()
			f.inject(t)
			span := s.Recovered()
			table.add(t.Name(), span)
			f.judge(t, span, subscribers)
		})
		s.Use(t)
		if !ok {
			return // the cluster may not be fit for the next fault
		}
	}
}

func (f *fault) judge(t *testing.T, span stand.Span, subscribers int) {
	if span.Lost > 0 && !f.forgets || span.Duplicated > 0 && !f.mayRepeat || span.Refused > 0 || len(span.Failures) > 0 {
		t.Errorf("%d lost, %d duplicated, %d refused: %q", span.Lost, span.Duplicated, span.Refused, span.Failures)
	}
	if !f.mayMiss && f.told != (span.Told >= subscribers) || !f.told && !f.mayMiss && span.Told > 0 {
		t.Errorf("%d of %d subscribers were told that they missed something", span.Told, subscribers)
	}
	f.judgeMaps(t, span.Maps)
	if span.Answers.Hung > 0 {
		t.Errorf("%d publishes got no answer in time: %v", span.Answers.Hung, span.Answers)
	}
	if f.failing && span.Answers.Failed() == 0 || f.quiet && span.Answers.Failed() > 0 {
		t.Errorf("publishers were told: %v", span.Answers)
	}
	if f.silence > 0 && span.Silence > f.silence {
		t.Errorf("silence for %v, want at most %v", span.Silence, f.silence)
	}
	for i, h := range span.Health {
		if h.Hung > 0 {
			t.Errorf("/health of node %d gave no answer %d times", i, h.Hung)
		}
		if f.unfit != "" && !strings.Contains(h.Reason, f.unfit) {
			t.Errorf("/health of node %d said %q, want something with %q", i, h.Reason, f.unfit)
		}
	}
}

func (f *fault) judgeMaps(t *testing.T, m atlas.Counts) {
	if len(m.Wrong) > 0 {
		t.Errorf("%d subscribers have wrong maps: %q", len(m.Wrong), m.Wrong)
	}
	if loses := f.told || f.mayMiss; !loses && (m.Told > 0 || m.Forgotten > 0) {
		t.Errorf("%d subscribers of maps had to begin anew, %d maps are not what was acknowledged", m.Told, m.Forgotten)
	}
	if f.told && m.Told == 0 { // a map that has not changed for a while may not have lost anything
		t.Error("no subscriber of maps was told to begin anew")
	}
}

func config(engine string) string { return configured(engine, streams("300s")+", "+plain) }

func withMaps(engine string) string {
	return configured(engine, streams("300s")+", "+plain+", "+mapNamespaces)
}

func configured(engine, namespaces string) string {
	return `{
	"http_server": {"address": "127.0.0.1"},
	"log": {"level": "info"},
	"health": {"enabled": true},
	"debug": {"enabled": true},
	"client": {
		"allow_anonymous_connect_without_token": true,
		"ping_interval": "3s", "pong_timeout": "2s",
		"channel_limit": 10000,
		"recovery_max_publication_limit": 10000
	},
	"http_api": {"key": "` + rig.APIKey + `"},
	"channel": {"namespaces": [` + namespaces + `]},
	` + engine + `}`
}

// streams are recoverable, plain has no history.
func streams(ttl string) string {
	return `{"name": "stream", "history_size": 10000, "history_ttl": "` + ttl + `", "force_recovery": true,
		"allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true}`
}

// mapNamespaces are for stand.Options.Maps.
var mapNamespaces = namespaceOfMaps("map", "1h") + ", " + namespaceOfMaps("brief", "2s")

func namespaceOfMaps(name, ttl string) string {
	return `{"name": "` + name + `", "subscription_type": "map", "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true,
		"map": {"mode": "recoverable", "key_ttl": "` + ttl + `", "stream_size": 5000, "stream_ttl": "300s", "min_page_size": 1}}`
}

const plain = `{"name": "plain", "allow_subscribe_for_client": true, "allow_subscribe_for_anonymous": true}`

// ioTimeout of the engines; answerLimit is what publishers may wait then.
const (
	ioTimeout   = 2 * time.Second
	answerLimit = ioTimeout + 2*time.Second
)

func redisEngine(keys string) string {
	return `"engine": {"type": "redis", "redis": {"io_timeout": "` + ioTimeout.String() + `", ` + keys + `}}`
}

func redisWithMaps(keys string) string {
	return redisEngine(keys) + `, "map_broker": {"type": "redis", "redis": {"io_timeout": "` + ioTimeout.String() + `", "prefix": "maps", ` + keys + `}}`
}

const (
	nodes       = 3
	subscribers = 300
	sdks        = 3
	clients     = subscribers + sdks

	mapChannels    = 5
	mapSubscribers = 6 // of each
)

func cluster(t *testing.T, engine string) *stand.Stand {
	t.Helper()
	return stand.New(t, stand.Options{
		Nodes: nodes, Config: withMaps(engine), Subscribers: subscribers, SDKs: sdks,
		Channels: 10, Every: 50 * time.Millisecond, AnswerLimit: answerLimit, Namespace: "stream",
		Maps: mapChannels, MapSubscribers: mapSubscribers,
	})
}

func allUnfit(s *stand.Stand) {
	for i := range s.Nodes {
		s.Unfit(i)
	}
}
