package commands

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

func connect(t *testing.T, server *redistest.Server) *servers.Client {
	t.Helper()
	client, err := servers.Open(t.Context(), servers.Options{Name: "shard", Addresses: []string{server.Addr()},
		ConnectTimeout: time.Second, IOTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestUnknownScripts runs calls whose scripts the server has forgotten, or some of them.
func TestUnknownScripts(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	client := connect(t, server)
	known := newScript(`redis.call('APPEND', KEYS[1], ARGV[1])`, ` return redis.call('GET', KEYS[1])`)
	other := newScript(`redis.call('APPEND', KEYS[1], ARGV[1])`, ` return 'other ' .. redis.call('GET', KEYS[1])`)
	var cmds []rueidis.Completed
	for _, first := range []*Script{nil, known, other} {
		server.Do("FLUSHALL")
		server.Do("SCRIPT", "FLUSH")
		if first != nil {
			c := Call{Script: first}
			c.Key("key")
			c.Arg("")
			for range 2 { // by its text, and by its SHA-1
				if _, err := Run(t.Context(), client, &c); err != nil {
					t.Fatal(err)
				}
			}
		}
		calls := make([]Call, 6)
		for i := range calls {
			calls[i].Script = []*Script{known, other}[i%2]
			calls[i].Key(fmt.Sprint("key", i%2))
			calls[i].Arg(fmt.Sprint(i))
		}
		var answers []rueidis.RedisResult
		answers, cmds = RunAll(t.Context(), client, calls, cmds)
		for i, want := range []string{"0", "other 1", "02", "other 13", "024", "other 135"} {
			if got, err := answers[i].ToString(); got != want || err != nil {
				t.Errorf("call %d: %q, %v, want %q", i, got, err, want)
			}
		}
	}
}

// TestFullCall has as many keys and arguments as a call can.
func TestFullCall(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	client := connect(t, server)
	c := Call{Script: newScript(`return #KEYS .. ' ' .. #ARGV`)}
	for range 6 {
		c.Key("key")
	}
	for range 20 {
		c.Arg("value")
	}
	answer, err := Run(t.Context(), client, &c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := answer.ToString(); got != "6 20" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
