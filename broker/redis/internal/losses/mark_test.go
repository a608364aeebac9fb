package losses

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

// TestLateMark: Redis does a call that the node has given up after a newer call. The mark stays
// as it is, and nothing seems to have gone back. When data really goes back, the next call tells.
func TestLateMark(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	client, err := servers.Open(t.Context(), servers.Options{Name: "shard", Addresses: []string{server.Addr()},
		ConnectTimeout: time.Second, IOTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	names := &format.Names{Prefix: "p"}
	key := names.Mark("node", "")
	late, marks := NewMarks(names, "node", []string{""}, commands.Streams.Publish), NewMarks(names, "node", []string{""}, commands.Streams.Publish)
	write := func(want Finding) {
		t.Helper()
		if f := marks.Write(t.Context(), client); f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
	for range 3 {
		write(Finding{Written: true})
	}
	late.Write(t.Context(), client) // number 1
	write(Finding{Written: true})
	server.Do("SET", key, "2")
	write(Finding{Written: true, RolledBack: true})
	write(Finding{Written: true})
	server.Do("DEL", key)
	write(Finding{Written: true, RolledBack: true})
}
