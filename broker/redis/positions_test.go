package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
)

// TestPositionsWithoutScript: positions of streams that are as the node expects them are read without the script. The script does the rest:
// it renews lives, makes streams, and gives those that have lost publications another epoch.
func TestPositionsWithoutScript(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b, _ := begin(t, server, false, 0, func(c *Config) { // the mark of a canary is written by a script, too
		c.CanaryInterval, c.CanaryTimeout = time.Hour, 2*time.Hour
	})
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	const meta = "gyro.stream.meta.ch"
	read := func(byScript bool) channel.StreamPosition {
		t.Helper()
		server.Do("CONFIG", "RESETSTAT")
		result := b.Positions(t.Context(), []string{"ch"}, 0)
		if len(result) != 1 || result[0].Err != nil {
			t.Fatalf("%+v", result)
		}
		stats := server.Do("INFO", "commandstats") // PEXPIRE is in this script alone
		if !strings.Contains(stats, "cmdstat_hmget:") || strings.Contains(stats, "cmdstat_pexpire:") != byScript {
			t.Errorf("by the script: want %v, have %s", byScript, stats)
		}
		return result[0].Top
	}
	want := func(got, want channel.StreamPosition) {
		t.Helper()
		if got != want {
			t.Errorf("the position is %+v, want %+v", got, want)
		}
	}
	top := publishTo(t, b, "first")
	want(read(true), top)
	want(read(false), top)
	top = publishTo(t, b, "second")
	want(read(false), top)

	// The life has to be renewed.
	sub := b.receivers[0][0].subscription("gyro.client.ch")
	sub.Renewed(0, b.receivers[0][0].shard.revision())
	server.Do("PEXPIRE", meta, "100000")
	want(read(true), top)
	if life := server.Do("PTTL", meta); len(life) < len("1000000000") {
		t.Errorf("the position lives for %s ms", life)
	}
	want(read(false), top)

	// Messages may have got lost: only a write shows that the server is still the primary.
	b.receivers[0][0].overflow(nil)
	want(read(true), top)
	want(read(false), top)

	// The data of the server goes back.
	server.Do("HSET", meta, "s", "1")
	if got := read(true); got.Offset != 1 || got.Epoch == top.Epoch {
		t.Errorf("the position is %+v behind %+v", got, top)
	}

	// The position is gone.
	server.Do("DEL", meta)
	if got := read(true); got.Offset != 0 || got.Epoch == top.Epoch || got.Epoch == "" {
		t.Errorf("the position is %+v behind %+v", got, top)
	}
}
