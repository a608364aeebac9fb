package memory

import (
	"testing"
	"time"
	"unsafe"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// Names of a request are parts of it, and must not keep all of it alive.
func TestRememberedStringsAreCopies(t *testing.T) {
	b := newBroker(t, ignore)
	request := []byte("channel key epoch")
	text := unsafe.String(&request[0], len(request))
	opts := broker.PublishOptions{
		HistorySize: 1, HistoryTTL: time.Hour, IdempotencyKey: text[8:11], VersionEpoch: text[12:],
	}
	for version := range uint64(3) {
		if _, err := b.Publish(ctx, text[:7], &channel.Publication{Version: version + 1}, opts); err != nil {
			t.Fatal(err)
		}
		opts.IdempotencyKey = text[8 : 9+version]
	}
	clear(request) // whatever is still a part of it changes
	for i := range b.stripes {
		s := &b.stripes[i]
		for name, c := range s.channels.m {
			if name != "channel" || c.stream.channel != "channel" || c.stream.versionEpoch != "epoch" {
				t.Errorf("channel %q: stream %q, version epoch %q", name, c.stream.channel, c.stream.versionEpoch)
			}
		}
		for key, r := range s.results.m {
			if key.channel != "channel" || key.key != "key"[:len(key.key)] || r.resultKey != key {
				t.Errorf("results %q and %q", key, r.resultKey)
			}
		}
	}
	if channels, results, _ := b.size(); channels != 1 || results != 3 {
		t.Errorf("%d channels, %d results", channels, results)
	}
}
