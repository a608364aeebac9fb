package fullstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/compose"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// rig is a broker of maps and one that shows them, as one.
type rig struct {
	t     *testing.T
	all   broker.Broker
	maps  broker.Maps
	shows *Broker
	log   bytes.Buffer

	mu     sync.Mutex
	fail   error // what State returns instead of the map
	events []broker.PublicationEvent
	lost   []func(string) bool
	block  chan struct{} // makes the handler wait
}

func (r *rig) HandlePublication(ch string, e broker.PublicationEvent) {
	if !strings.HasPrefix(ch, "full:") {
		return
	}
	r.mu.Lock()
	r.events = append(r.events, e)
	block := r.block
	r.mu.Unlock()
	if block != nil {
		<-block
	}
}

func (r *rig) HandleJoin(string, *channel.ClientInfo)  {}
func (r *rig) HandleLeave(string, *channel.ClientInfo) {}
func (r *rig) HandleLoss(match func(string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, match)
}

// newRig returns a rig in which full:x shows the map x, once a second if it begins with "slow". Maps that begin with "e" are ephemeral.
func newRig(t *testing.T) *rig {
	r := &rig{t: t}
	r.shows = New(Config{
		Of: func(ch string) (Map, bool) {
			name, ok := strings.CutPrefix(ch, "full:")
			of := Map{Channel: name, Ephemeral: strings.HasPrefix(name, "e")}
			if strings.HasPrefix(name, "slow") {
				of.Interval = time.Second
			}
			return of, ok && name != "none"
		},
		State: func(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
			if err := r.failure(); err != nil {
				return channel.State{}, err
			}
			return r.maps.State(ctx, ch, filter)
		},
		Positions: func(ctx context.Context, channels []string) []broker.PositionResult {
			return r.all.Describe().Positions(ctx, channels, 0)
		},
		Local: true,
		Log:   slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	r.all = compose.NewBroker(func(ch string) int {
		if strings.HasPrefix(ch, "full:") {
			return 1
		}
		return 0
	}, memory.New(memory.Config{}), r.shows)
	r.maps = r.all.Describe().Maps
	if err := r.all.Run(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) set(ch, key, data string) {
	r.t.Helper()
	opts := channel.MapOptions{KeyTTL: time.Hour}
	if !strings.HasPrefix(ch, "e") {
		opts.StreamSize, opts.StreamTTL = 10, time.Hour
	}
	pub := &channel.Publication{Key: key, Data: []byte(data), Removed: data == ""}
	if _, err := r.maps.Change(r.t.Context(), ch, pub, opts); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) subscribe(ch string) {
	r.t.Helper()
	if err := r.all.Subscribe(r.t.Context(), ch); err != nil {
		r.t.Fatal(err)
	}
}

// history returns the state that a new subscriber gets.
func (r *rig) history(ch string) (string, channel.StreamPosition) {
	r.t.Helper()
	h, err := r.all.History(r.t.Context(), ch, broker.HistoryFilter{Reverse: true, Limit: 1})
	if err != nil || len(h.Publications) != 1 || h.Publications[0].Offset != h.Top.Offset {
		r.t.Fatalf("history of %s: %+v, %v", ch, h, err)
	}
	return string(h.Publications[0].Data), h.Top
}

// pass lets time pass and returns what was published meanwhile.
func (r *rig) pass(d time.Duration) []broker.PublicationEvent {
	time.Sleep(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

func (r *rig) position(ch string) channel.StreamPosition {
	r.t.Helper()
	results := r.all.Describe().Positions(r.t.Context(), []string{ch}, 0)
	if results[0].Err != nil {
		r.t.Fatal(results[0].Err)
	}
	return results[0].Top
}

func (r *rig) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail
}

// setFailure makes reads of maps fail with err.
func (r *rig) setFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// setBlock makes the handler wait for block.
func (r *rig) setBlock(block chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.block = block
}

// inBubble runs a test in virtual time, with a rig.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		test(t, r)
		if err := r.all.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Changes within an interval make one publication, which builds on the one before; none makes no publication.
func TestShowsChanges(t *testing.T) {
	for _, name := range []string{"board", "ephemeral"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				ch := "full:" + name
				r.subscribe(ch)
				state, top := r.history(ch)
				if state != "[]" || top.Offset != 1 || top.Epoch == "" {
					t.Errorf("first state %s at %+v", state, top)
				}
				r.set(name, "b", `{"x":1}`)
				r.set(name, "a", "[1,\n2]")
				events := r.pass(defaultInterval)
				want := `[["a",[1,2]],["b",{"x":1}]]`
				if len(events) != 1 || string(events[0].Pub.Data) != want || string(events[0].Prev.Data) != state {
					t.Fatalf("events %+v, want one of %s", events, want)
				}
				if e := events[0]; !e.Delta || e.Epoch != top.Epoch || e.Pub.Offset != 2 || e.Prev.Offset != 1 || !e.Pub.Checked || e.Pub.Time != time.Now().UnixMilli() {
					t.Errorf("event %+v of %+v", e, e.Pub)
				}
				r.set(name, "b", `{"x":1}`) // a change of the map that does not change the state
				if events := r.pass(time.Minute); len(events) != 0 {
					t.Errorf("%d publications of the same state", len(events))
				}
				r.set(name, "a", "")
				if events := r.pass(defaultInterval); len(events) != 1 || string(events[0].Pub.Data) != `[["b",{"x":1}]]` {
					t.Errorf("after a removal: %+v", events)
				}
				if state, at := r.history(ch); state != `[["b",{"x":1}]]` || at != r.position(ch) || at != (channel.StreamPosition{Offset: 3, Epoch: top.Epoch}) {
					t.Errorf("state %s at %+v", state, at)
				}
			})
		})
	}
}

// A subscriber that does not ask for the state gets it with the first look.
func TestFirstState(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set("slow", "k", "1")
		r.subscribe("full:slow")
		if events := r.pass(999 * time.Millisecond); len(events) != 0 {
			t.Errorf("%d publications before the interval is over", len(events))
		}
		if events := r.pass(time.Millisecond); len(events) != 1 || string(events[0].Pub.Data) != `[["k",1]]` || events[0].Prev != nil {
			t.Errorf("first look: %+v", events)
		}
	})
}

// A stream has one publication, and filters select as in any other.
func TestHistoryFilter(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.subscribe("full:a")
		r.history("full:a")
		r.set("a", "k", "1")
		r.pass(defaultInterval)
		at := func(offset uint64) *channel.StreamPosition { return &channel.StreamPosition{Offset: offset} }
		for i, c := range []struct {
			filter broker.HistoryFilter
			want   int
		}{
			{broker.HistoryFilter{}, 0},
			{broker.HistoryFilter{Limit: -1}, 1},
			{broker.HistoryFilter{Limit: 5, Since: at(1)}, 1},
			{broker.HistoryFilter{Limit: 5, Since: at(2)}, 0},
			{broker.HistoryFilter{Limit: 5, Since: at(3), Reverse: true}, 1},
			{broker.HistoryFilter{Limit: 5, Since: at(2), Reverse: true}, 0},
			{broker.HistoryFilter{Limit: 5, Since: at(1), Reverse: true}, 0},
		} {
			if h, err := r.all.History(t.Context(), "full:a", c.filter); err != nil || len(h.Publications) != c.want || h.Top.Offset != 2 {
				t.Errorf("%d: %+v, %v", i, h, err)
			}
		}
	})
}

// A channel goes on for 30 s without subscribers, hands nothing over, and then begins anew.
func TestLinger(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		r.subscribe("full:a")
		_, before := r.history("full:a")
		leave := func(d time.Duration) {
			t.Helper()
			if err := r.all.Unsubscribe(ctx, "full:a", "full:unknown"); err != nil {
				t.Fatal(err)
			}
			r.set("a", "k", fmt.Sprint(time.Now().UnixNano()))
			if events := r.pass(d); len(events) != 0 {
				t.Errorf("%d publications without a subscriber", len(events))
			}
			r.subscribe("full:a")
		}
		leave(linger - defaultInterval)
		if _, at := r.history("full:a"); at.Epoch != before.Epoch || at.Offset != 2 {
			t.Errorf("came back at %+v, was at %+v", at, before)
		}
		leave(linger + defaultInterval)
		if _, at := r.history("full:a"); at.Epoch == before.Epoch || at.Offset != 1 {
			t.Errorf("after %v at %+v, was at %+v", linger, at, before)
		}
		if err := r.all.Unsubscribe(ctx, "full:a"); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		if len(r.shows.channels) != 0 || len(r.shows.byInterval) != 0 {
			t.Errorf("%d channels of %d intervals are kept", len(r.shows.channels), len(r.shows.byInterval))
		}
	})
}

// A history that is read without a subscription leaves nothing behind.
func TestReadWithoutSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set("a", "k", "1")
		if state, _ := r.history("full:a"); state != `[["k",1]]` {
			t.Errorf("state %s", state)
		}
		if at := r.position("full:a"); at.Offset != 1 {
			t.Errorf("position %+v", at)
		}
		if len(r.shows.channels) != 0 {
			t.Error("the channel is kept")
		}
	})
}

// A map that does not fit ends the stream; subscribers are told of a loss, and newcomers why. It comes back when it fits.
func TestUnfit(t *testing.T) {
	for name, c := range map[string]struct {
		data, says string
		want       error
	}{
		"too large": {`"` + strings.Repeat("x", maxSize) + `"`, "the limit is 1048576", protocol.ErrorLimitExceeded},
		"not JSON":  {"\x00binary", `key \"big\": payload is not valid JSON`, protocol.ErrorNotAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.subscribe("full:a")
				_, before := r.history("full:a")
				r.set("a", "big", c.data)
				if events := r.pass(defaultInterval); len(events) != 0 {
					t.Errorf("events %+v", events)
				}
				if len(r.lost) != 1 || !r.lost[0]("full:a") || r.lost[0]("full:b") || r.lost[0]("a") {
					t.Errorf("%d losses", len(r.lost))
				}
				if at := r.position("full:a"); at.Epoch == before.Epoch || at.Offset != 0 {
					t.Errorf("position %+v, was %+v", at, before)
				}
				if _, err := r.all.History(t.Context(), "full:a", broker.HistoryFilter{Limit: 1}); !errors.Is(err, c.want) {
					t.Errorf("history: %v, want %v", err, c.want)
				}
				r.pass(time.Minute)
				if out := r.log.String(); !strings.Contains(out, c.says) || !strings.Contains(out, "channel=full:a map=a") || strings.Count(out, "\n") != 2 || len(r.lost) != 1 {
					t.Errorf("%d losses, log:\n%.500s", len(r.lost), out)
				}
				r.set("a", "big", "")
				if events := r.pass(defaultInterval); len(events) != 1 || string(events[0].Pub.Data) != "[]" || events[0].Pub.Offset != 1 {
					t.Errorf("events %+v", events)
				}
			})
		})
	}
}

// While maps cannot be read, channels keep their state; afterwards they catch up.
func TestFailure(t *testing.T) {
	for _, name := range []string{"a", "e"} {
		inBubble(t, func(t *testing.T, r *rig) {
			ch := "full:" + name
			r.subscribe(ch)
			r.history(ch)
			r.set(name, "k", "1")
			r.setFailure(errors.New("engine away"))
			if events := r.pass(defaultInterval); len(events) != 0 || !strings.Contains(r.log.String(), `error="engine away"`) {
				t.Errorf("events %+v, log %s", events, r.log.String())
			}
			if state, _ := r.history(ch); state != "[]" {
				t.Errorf("state %s", state)
			}
			if _, err := r.all.History(t.Context(), "full:other", broker.HistoryFilter{}); err == nil {
				t.Error("a first state without reading the map")
			}
			r.setFailure(nil)
			if events := r.pass(defaultInterval); len(events) != 1 || string(events[0].Pub.Data) != `[["k",1]]` {
				t.Errorf("events %+v", events)
			}
		})
	}
}

// History does not wait for the handler; Positions does, so that it never is ahead of it.
func TestBlockedHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.subscribe("full:a")
		r.history("full:a")
		r.set("a", "k", "1")
		block := make(chan struct{})
		r.setBlock(block)
		r.pass(defaultInterval)
		if state, _ := r.history("full:a"); state != `[["k",1]]` {
			t.Errorf("state %s", state)
		}
		done := make(chan channel.StreamPosition, 1)
		go func() { done <- r.position("full:a") }()
		synctest.Wait()
		select {
		case at := <-done:
			t.Errorf("position %+v while the handler has not taken it", at)
		default:
		}
		r.setBlock(nil)
		close(block)
		if at := <-done; at.Offset != 2 {
			t.Errorf("position %+v", at)
		}
	})
}

// What is not a map is refused, and nothing can be published.
func TestRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		if err := r.shows.Run(r); err == nil {
			t.Error("ran twice")
		}
		_, history := r.all.History(ctx, "full:none", broker.HistoryFilter{})
		for _, err := range []error{r.all.Subscribe(ctx, "full:none"), history, r.all.Describe().Positions(ctx, []string{"full:none"}, 0)[0].Err} {
			if !errors.Is(err, protocol.ErrorUnknownChannel) {
				t.Errorf("unknown map: %v", err)
			}
		}
		_, publish := r.all.Publish(ctx, "full:a", &channel.Publication{Data: []byte("1")}, broker.PublishOptions{})
		for _, err := range []error{publish, r.all.PublishJoin(ctx, "full:a", nil), r.all.PublishLeave(ctx, "full:a", nil), r.all.RemoveHistory(ctx, "full:a")} {
			if !errors.Is(err, protocol.ErrorNotAvailable) {
				t.Errorf("a change: %v", err)
			}
		}
		if err := r.shows.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if r.shows.Subscribe(ctx, "full:a") == nil || r.shows.Unsubscribe(ctx, "full:a") == nil || r.shows.Run(r) == nil {
			t.Error("works after Close")
		}
		if _, err := r.shows.History(ctx, "full:a", broker.HistoryFilter{}); err == nil {
			t.Error("history after Close")
		}
	})
}

// Whatever happens, what subscribers get are states that the map had, in their order, each the successor of the one
// before; and after the next interval they have the newest one.
func TestAnySchedule(t *testing.T) {
	for seed := range uint64(200) {
		inBubble(t, func(t *testing.T, r *rig) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			name := []string{"a", "e"}[seed%2]
			ch := "full:" + name
			model, states := map[string]string{}, []string{"[]"}
			r.subscribe(ch)
			state, top := r.history(ch)
			seen := 0
			follow := func() {
				for _, e := range r.pass(time.Duration(rnd.IntN(600)) * time.Millisecond) {
					at := slices.Index(states[seen:], string(e.Pub.Data))
					if e.Pub.Offset != top.Offset+1 || e.Epoch != top.Epoch || at < 0 || string(e.Prev.Data) != state {
						t.Fatalf("seed %d: event %s at %d after %s at %+v", seed, e.Pub.Data, e.Pub.Offset, state, top)
					}
					state, top.Offset, seen = string(e.Pub.Data), e.Pub.Offset, seen+at
				}
			}
			for range 100 {
				switch key := string(rune('a' + rnd.IntN(4))); {
				case rnd.IntN(3) == 0:
					follow()
				case rnd.IntN(4) == 0 && model[key] != "":
					delete(model, key)
					r.set(name, key, "")
				default:
					model[key] = fmt.Sprint(rnd.IntN(3) + 1)
					r.set(name, key, model[key])
				}
				if now := encoded(model); now != states[len(states)-1] {
					states = append(states, now)
				}
			}
			time.Sleep(defaultInterval)
			follow()
			if state != encoded(model) || r.position(ch) != top {
				t.Errorf("seed %d: ends with %s, want %s", seed, state, encoded(model))
			}
		})
	}
}

func encoded(m map[string]string) string {
	pairs := [][2]any{}
	for k, v := range m {
		pairs = append(pairs, [2]any{k, json.RawMessage(v)})
	}
	slices.SortFunc(pairs, func(a, b [2]any) int { return strings.Compare(a[0].(string), b[0].(string)) })
	out, _ := json.Marshal(pairs)
	return string(out)
}
