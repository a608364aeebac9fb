package redis

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
)

// silent is a handler that ignores all events.
type silent struct{}

func (silent) HandlePublication(string, broker.PublicationEvent) {}
func (silent) HandleJoin(string, *channel.ClientInfo)            {}
func (silent) HandleLeave(string, *channel.ClientInfo)           {}
func (silent) HandleLoss(func(string) bool)                      {}

// TestExpiresWhatIsDue: a key that was set again, or removed, since the look found it is not removed.
func TestExpiresWhatIsDue(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	engine, err := New(Config{Shards: []Shard{{Addresses: []string{server.Addr()}}}, MapExpiryInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b := engine.broker
	if err := b.Run(silent{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	o := channel.MapOptions{StreamSize: 10, StreamTTL: time.Hour, KeyTTL: time.Hour}
	for _, key := range []string{"again", "due"} {
		if _, err := b.maps.Change(t.Context(), "ch", &channel.Publication{Key: key}, o); err != nil {
			t.Fatal(err)
		}
	}
	server.Do("ZADD", b.engine.cfg.Prefix+".map.dues.ch", "1", "due")
	if err := b.maps.expire(t.Context(), b.shards[0], "ch", format.Hash("ch"), &o, []string{"again", "due", "gone"}); err != nil {
		t.Fatal(err)
	}
	s, err := b.maps.State(t.Context(), "ch", channel.StateFilter{Limit: -1})
	if err != nil || len(s.Entries) != 1 || s.Entries[0].Key != "again" || s.Top.Offset != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if e := b.Describe().Expiry(); e.Removed != 1 || e.Failures != 0 {
		t.Errorf("%+v is counted", e)
	}
}

// TestGiveBack: while maps could not be registered, others were changed, and the same ones again. None is
// forgotten, and the first key to expire decides when a map is looked at.
func TestGiveBack(t *testing.T) {
	at := func(seconds int) look { return look{due: time.Unix(int64(seconds), 0)} }
	l := &looks{maps: map[string]look{"sooner": at(1), "later": at(9), "new": at(5)}}
	l.giveBack(map[string]look{"sooner": at(4), "later": at(4), "old": at(3)})
	want := map[string]look{"sooner": at(1), "later": at(4), "new": at(5), "old": at(3)}
	if !maps.Equal(l.maps, want) {
		t.Errorf("%v, want %v", l.maps, want)
	}
}
