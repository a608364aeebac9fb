package faults

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/stand"
)

var stormClients = flag.Int("storm-clients", 500, "clients of each of the two nodes in TestStormAcrossNodes")

// TestStormAcrossNodes: one of two nodes is killed, and all its clients come to the other at once and recover.
func TestStormAcrossNodes(t *testing.T) {
	redis := redistest.Standalone(t, redistest.Options{})
	channels := max(1, *stormClients/10)
	s := stand.New(t, stand.Options{
		Nodes: 2, Config: patient(config(address(redis.Addr()))), Subscribers: 2 * *stormClients,
		Channels: channels, Every: time.Duration(channels) * 10 * time.Millisecond, // 100 per second in all
		AnswerLimit: answerLimit, Namespace: "stream",
	})
	s.Begin()
	before := commands(t, redis)
	start := time.Now()
	s.Nodes[0].Kill()
	s.AllAt(1)
	back := time.Since(start)
	after := commands(t, redis)
	s.Flow()
	s.Restart(0)
	span := s.Recovered()
	table.add(t.Name(), span)
	f := fault{failing: true}
	span.Health = nil // one of them was dead
	f.judge(t, span, 2**stormClients)
	if span.Reconnects != *stormClients {
		t.Errorf("%d reconnects, want one for each of %d: %v", span.Reconnects, *stormClients, span.Ends)
	}
	delete(after, "info")
	total := 0
	for name := range after {
		after[name] -= before[name]
		total += after[name]
	}
	// A publication is a command, too. At most as many were answered meanwhile as at the end.
	per := float64(total) / float64(*stormClients)
	t.Logf("%d clients back in %v, %.2f commands of Redis per client, the publications of the time among them: %s",
		*stormClients, back.Round(time.Millisecond), per, list(after))
	if per > 3 {
		t.Errorf("%.2f commands per client, want at most 3", per)
	}
}

// patient gives the clients of this process more time for pongs.
func patient(config string) string {
	return strings.Replace(config, `"ping_interval": "3s", "pong_timeout": "2s"`, `"ping_interval": "15s", "pong_timeout": "12s"`, 1)
}

func list(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// inScripts are commands that the engine's scripts call: Redis counts them like those
// of clients.
var inScripts = []string{
	"hget", "hmget", "hset", "hincrby", "hgetall", "hexists", "hdel", "expire", "pexpire", "xadd", "xrange", "xrevrange",
	"del", "lpush", "ltrim", "lrange", "lindex", "zadd", "zrem", "zrangebyscore", "zremrangebyscore", "publish", "spublish",
}

func commands(t *testing.T, server *redistest.Server) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(server.Do("INFO", "commandstats")) {
		name, rest, found := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !found {
			continue
		}
		name = strings.TrimPrefix(name, "cmdstat_")
		if slices.Contains(inScripts, name) {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			t.Fatal(err)
		}
		counts[name] = n
	}
	return counts
}
