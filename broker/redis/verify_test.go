package redis

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// witness is an event handler that hands over publications, and channels with losses.
type witness struct {
	publications chan broker.PublicationEvent
	losses       chan func(string) bool
}

func (s *witness) HandlePublication(_ string, e broker.PublicationEvent) {
	wait.Offer(s.publications, e)
}
func (s *witness) HandleJoin(string, *channel.ClientInfo)  {}
func (s *witness) HandleLeave(string, *channel.ClientInfo) {}
func (s *witness) HandleLoss(match func(string) bool)      { wait.Offer(s.losses, match) }

// TestOlderData: Redis comes back with older data than was delivered. What it lost
// must not be taken for what is published in its place.
func TestOlderData(t *testing.T) {
	t.Parallel()
	for _, lists := range []bool{false, true} {
		for name, test := range map[string]struct {
			saved int // publications of 5 that Redis has after the restart
			again int // publications before anybody asks
			renew bool
		}{
			"nothing lost":                 {saved: 5},
			"nothing lost, more published": {saved: 5, again: 2},
			"lost":                         {saved: 3, renew: true},
			"lost, fewer published":        {saved: 3, again: 1, renew: true},
			"lost, as many published":      {saved: 3, again: 2, renew: true},
			"lost, more published":         {saved: 3, again: 4, renew: true},
			"nothing left, more published": {saved: 1, again: 7, renew: true},
		} {
			t.Run(fmt.Sprintf("%s, lists %v", name, lists), func(t *testing.T) {
				t.Parallel()
				olderData(t, lists, test.saved, test.again, test.renew)
			})
		}
	}
}

func olderData(t *testing.T, lists bool, saved, again int, renew bool) {
	server := redistest.Standalone(t, redistest.Options{})
	reader, s := begin(t, server, lists, 0)
	if err := reader.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	writer, _ := begin(t, server, lists, 0)
	var before channel.StreamPosition
	for i := range 5 {
		before = publishTo(t, writer, fmt.Sprintf("before %d", i))
		<-s.publications
		if i+1 == saved {
			server.Do("SAVE")
		}
	}
	server.Restart(false)
	for i := range again {
		publishTo(t, writer, fmt.Sprintf("after %d", i))
	}
	ask := broker.HistoryFilter{Limit: -1, Since: &before}
	var h broker.History
	wait.Success(t, "the history is read", func() (err error) {
		h, err = reader.History(t.Context(), "ch", ask)
		return err
	})
	if renewed := h.Top.Epoch != before.Epoch; renewed != renew {
		t.Fatalf("renewed: %v, want %v: %+v behind %+v", renewed, renew, h.Top, before)
	}
	if want := uint64(saved + again); h.Top.Offset != want {
		t.Fatalf("the top is %d, want %d", h.Top.Offset, want)
	}
	if !renew && len(h.Publications) != again {
		t.Fatalf("%d publications, want %d", len(h.Publications), again)
	}
	// Delivery goes on, and the new life of the stream is no reason for a third one.
	wait.Until(t, "a delivery", func() (delivered bool) {
		top := publishTo(t, writer, "last")
		if top.Epoch != h.Top.Epoch {
			t.Fatalf("epoch %q behind %q", top.Epoch, h.Top.Epoch)
		}
		select {
		case e := <-s.publications:
			delivered = string(e.Pub.Data) == "last" && e.Epoch == top.Epoch
		case <-time.After(50 * time.Millisecond): // not subscribed again yet
		}
		return delivered
	})
	if match := wait.Receive(t, "a loss", s.losses); !match("ch") {
		t.Fatal("the channel is not among those with losses")
	}
}

// TestOlderDataAcknowledged: what Redis lost was delivered to nobody, but the node had
// it acknowledged.
func TestOlderDataAcknowledged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ saved, again int }{{5, 3}, {3, 0}, {3, 1}, {3, 2}, {3, 4}} {
		lost := test.saved < 5
		server := redistest.Standalone(t, redistest.Options{})
		writer, s := begin(t, server, false, 0)
		var last channel.StreamPosition
		for i := range 5 {
			last = publishTo(t, writer, fmt.Sprintf("before %d", i))
			if i+1 == test.saved {
				server.Do("SAVE")
			}
		}
		server.Restart(false)
		for i := range test.again {
			publishTo(t, writer, fmt.Sprintf("after %d", i))
		}
		var h broker.History
		wait.Success(t, "the history is read", func() (err error) {
			h, err = writer.History(t.Context(), "ch", broker.HistoryFilter{})
			return err
		})
		if renewed := h.Top.Epoch != last.Epoch; renewed != lost {
			t.Errorf("%+v: renewed: %v", test, renewed)
		}
		if lost {
			wait.Receive(t, "a loss", s.losses)
		}
	}
}

// TestComparedMeanwhile: the server comes back with older data, and has as many publications again
// when a read gets to it that was begun before. The streams are verified while the answer is on its way
// to the reader. It must not take the answer for what was found to be continuous.
func TestComparedMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b, _ := begin(t, server, false, 0)
	var before channel.StreamPosition
	for i := range 5 {
		before = publishTo(t, b, fmt.Sprintf("before %d", i))
		if i == 2 {
			server.Do("SAVE")
		}
	}
	s, hash, err := b.locate(t.Context(), "ch")
	if err != nil {
		t.Fatal(err)
	}
	var tops []channel.StreamPosition
	err = b.readVerified(t.Context(), s, func() error {
		if len(tops) > 0 {
			tops = append(tops, readTop(t, b, s, hash))
			return nil
		}
		end := holdVerification(s)
		server.Restart(false)
		other, _ := begin(t, server, false, 0) // knows nothing of the stream
		for range 2 {
			publishTo(t, other, "after")
		}
		tops = append(tops, readTop(t, b, s, hash))
		end()
		return b.verify(t.Context(), s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if tops[0] != before {
		t.Fatalf("the answer on its way has %+v, want the position before, %+v", tops[0], before)
	}
	if last := tops[len(tops)-1]; last.Epoch == before.Epoch {
		t.Errorf("%+v was read behind %+v: two other publications count as those that were lost", last, before)
	}
}

// readTop reads the top of the channel once the server answers, whether or not the shard is verified.
func readTop(t *testing.T, b *Broker, s *shard, hash uint64) (top channel.StreamPosition) {
	t.Helper()
	wait.Success(t, "the position is read", func() error {
		m := commands.NewStrings(64)
		var c commands.Call
		filter := broker.HistoryFilter{}
		whole := b.historyCall(&c, s, &m, "ch", hash, nil, &filter)
		h, _, err := b.history(t.Context(), s, &c, &filter, whole)
		top = h.Top
		return err
	})
	return top
}

// holdVerification lets no verification begin until end is called.
func holdVerification(s *shard) (end func()) {
	running := make(chan struct{})
	s.verification.mu.Lock()
	defer s.verification.mu.Unlock()
	s.verification.running = running
	return func() {
		s.verification.mu.Lock()
		defer s.verification.mu.Unlock()
		s.verification.running = nil
		close(running)
	}
}

// TestLateAnswers: a server that was stopped answers in the end what was asked on
// connections that were given up.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "secret"} {
		server := redistest.Standalone(t, redistest.Options{Password: password})
		b, _ := begin(t, server, false, 200*time.Millisecond)
		for range 5 {
			publishTo(t, b, "before")
			server.Stop()
			for range 4 { // more than one connection is made
				_, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("lost")}, broker.PublishOptions{})
				if err == nil {
					t.Fatal("a stopped server answered")
				}
			}
			server.Continue()
			publishTo(t, b, "after")
		}
	}
}

// begin runs a broker on a server.
func begin(t *testing.T, server *redistest.Server, lists bool, timeout time.Duration, change ...func(*Config)) (*Broker, *witness) {
	t.Helper()
	cfg := Config{
		Shards: []Shard{{
			Addresses: []string{server.Addr()}, Password: server.Password(), Mode: Standalone, IOTimeout: timeout,
		}},
		StartTimeout: wait.Limit, HistoryUseLists: lists, Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	engine, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := engine.broker
	s := &witness{make(chan broker.PublicationEvent, 100), make(chan func(string) bool, 100)}
	if err := b.Run(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b, s
}

// publishTo publishes when Redis lets it.
func publishTo(t *testing.T, b *Broker, data string) channel.StreamPosition {
	t.Helper()
	var result broker.PublishResult
	wait.Success(t, "a publish succeeds", func() (err error) {
		result, err = b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte(data)},
			broker.PublishOptions{HistorySize: 100, HistoryTTL: time.Minute})
		return err
	})
	return result.Position
}
