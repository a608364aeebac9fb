// Package maptest is the conformance suite of broker.Maps. Every engine that offers Traits.Maps passes it.
package maptest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/internal/pace"
	"github.com/gyrohq/gyro/broker/brokertest/internal/record"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

// made is channel.MapResult.Suppressed of a change that was made.
const made broker.SuppressReason = ""

// Run tests the maps of the engine that newBroker makes, once for each test and before Run; the suite calls Run and
// Close. It uses the capabilities Virtual and Unit. The tests are parallel: they run when the caller has returned.
func Run(t *testing.T, newBroker func(t testing.TB) broker.Broker, caps brokertest.Capabilities) {
	for name, test := range map[string]func(f *fixture){
		"Changes": testChanges, "Conditions": testConditions, "Expected": testExpected, "Versions": testVersions,
		"Idempotency": timely(testIdempotency), "Pages": testPages, "Ephemeral": timely(testEphemeral), "Expiry": timely(testExpiry),
		"MaxEntries": testMaxEntries, "MaxEntriesConditions": testMaxEntriesConditions, "MaxEntriesExpiry": timely(testMaxEntriesExpiry),
		"MaxEntriesRace": testMaxEntriesRace,
		"Refresh":        timely(testRefresh), "Lives": timely(testLives), "Clear": testClear, "Delta": testDelta,
		"OneWins": testOneWins, "PagesUnderChange": testPagesUnderChange, "Model": testModel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(t *testing.T) { test(newFixture(t, newBroker(t), caps)) }
			if caps.Virtual {
				synctest.Test(t, run)
				return
			}
			run(t)
		})
	}
}

// timely is as in brokertest; only advance and waiting for events may take longer than a unit.
func timely(test func(f *fixture)) func(f *fixture) {
	return func(f *fixture) {
		if f.virtual {
			test(f)
			return
		}
		for !pace.Try(f.unit, func(c *pace.Clock) { f.clock = c; test(f) }) {
			f.unit *= 2
			f.begin()
		}
	}
}

// fixture is a running broker with a subscribed channel.
type fixture struct {
	*testing.T
	broker  broker.Broker
	maps    broker.Maps
	events  *record.Recorder
	virtual bool
	unit    time.Duration
	ch      string
	read    int         // events that were looked at
	clock   *pace.Clock // of a timely test
}

var serial atomic.Int64

func newFixture(t *testing.T, b broker.Broker, caps brokertest.Capabilities) *fixture {
	t.Helper()
	f := &fixture{T: t, broker: b, maps: b.Describe().Maps, events: record.New(), virtual: caps.Virtual, unit: caps.Unit}
	if f.unit <= 0 {
		f.unit = time.Second
	}
	f.must(b.Run(f.events))
	t.Cleanup(func() { f.must(b.Close(context.Background())) })
	f.begin()
	return f
}

func (f *fixture) begin() {
	f.ch, f.read = fmt.Sprintf("map:%d_%d", time.Now().UnixNano(), serial.Add(1)), 0
	f.must(f.broker.Subscribe(context.Background(), f.ch))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	f.clock.Check()
	equal(f, what, got, want)
}

// equal takes a *testing.T or a *rapid.T.
func equal(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// options of a map with a stream, whose entries stay.
func (f *fixture) options() channel.MapOptions {
	return channel.MapOptions{StreamSize: 100, StreamTTL: 1000 * f.unit}
}

func (f *fixture) change(pub channel.Publication, o channel.MapOptions) channel.MapResult {
	f.Helper()
	result, err := f.maps.Change(context.Background(), f.ch, &pub, o)
	f.must(err)
	return result
}

func (f *fixture) set(key, data string, o channel.MapOptions) channel.MapResult {
	f.Helper()
	return f.change(channel.Publication{Key: key, Data: []byte(data)}, o)
}

func (f *fixture) remove(key string, o channel.MapOptions) channel.MapResult {
	f.Helper()
	return f.change(channel.Publication{Key: key, Removed: true}, o)
}

func (f *fixture) state(filter channel.StateFilter) channel.State {
	f.Helper()
	s, err := f.maps.State(context.Background(), f.ch, filter)
	f.must(err)
	return s
}

// wantState checks all entries: "key=data@offset" each.
func (f *fixture) wantState(want ...string) channel.State {
	f.Helper()
	s := f.state(channel.StateFilter{Limit: -1})
	f.equal("state", texts(s.Entries), want)
	f.equal("count", s.Count, len(want))
	f.equal("cursor", s.Cursor, "")
	return s
}

// wantEvents waits for changes beyond those that were looked at, and checks that they are all.
func (f *fixture) wantEvents(want ...string) []broker.PublicationEvent {
	f.Helper()
	begin := time.Now()
	all, err := f.events.Wait(f.ch, wait.Limit, record.AtLeast(f.read+len(want)))
	f.must(err)
	f.clock.Pass(time.Since(begin))
	var events []broker.PublicationEvent
	var pubs []*channel.Publication
	for _, e := range all[f.read:] {
		events, pubs = append(events, e.PublicationEvent), append(pubs, e.Pub)
	}
	f.read = len(all)
	f.equal("changes", texts(pubs), want)
	return events
}

// advance lets units of time pass, and engines that live in the process do the work that is due.
func (f *fixture) advance(units float64) {
	d := time.Duration(units * float64(f.unit))
	time.Sleep(d)
	f.clock.Pass(d)
	if f.virtual {
		synctest.Wait()
	}
}

func texts(pubs []*channel.Publication) []string {
	list := make([]string, len(pubs))
	for i, p := range pubs {
		list[i] = text(p)
	}
	return list
}

func text(p *channel.Publication) string {
	if p.Removed {
		return fmt.Sprintf("%s removed@%d", p.Key, p.Offset)
	}
	return fmt.Sprintf("%s=%s@%d", p.Key, p.Data, p.Offset)
}

func testChanges(f *fixture) {
	o := f.options()
	info, tags := &channel.ClientInfo{User: "u", Client: "c"}, map[string]string{"t": "1"}
	first := f.change(channel.Publication{Key: "b", Data: []byte("1"), Info: info, Tags: tags, Score: 7}, o)
	f.set("a", "2", o)
	f.set("b", "3", o)
	f.change(channel.Publication{Key: "c", Data: []byte("4"), Tags: tags}, o)
	last := f.remove("c", o)
	if first.Position.Epoch == "" || last.Position.Epoch != first.Position.Epoch {
		f.Errorf("epochs of %+v and %+v", first, last)
	}
	f.equal("last", last.Position.Offset, uint64(5))
	events := f.wantEvents("b=1@1", "a=2@2", "b=3@3", "c=4@4", "c removed@5")
	p := events[0].Pub
	f.equal("info", p.Info, info)
	if p.Score != 7 || p.Tags["t"] != "1" || p.Time == 0 || events[0].Epoch != first.Position.Epoch {
		f.Errorf("%+v", p)
	}
	f.equal("tags of the removed entry", events[4].Pub.Tags, tags)
	f.equal("top", f.wantState("a=2@2", "b=3@3").Top, last.Position)
	h, err := f.broker.History(context.Background(), f.ch, broker.HistoryFilter{Limit: -1, Since: &channel.StreamPosition{Offset: 2}})
	f.must(err)
	f.equal("stream", texts(h.Publications), []string{"b=3@3", "c=4@4", "c removed@5"})
	f.equal("top of the stream", h.Top, last.Position)

	o.StreamSize = 2
	f.set("d", "6", o)
	f.change(channel.Publication{Key: "d", Removed: true, Tags: map[string]string{"own": ""}}, o)
	f.equal("tags of a removal", f.wantEvents("d=6@6", "d removed@7")[1].Pub.Tags, map[string]string{"own": ""})
	h, err = f.broker.History(context.Background(), f.ch, broker.HistoryFilter{Limit: -1})
	f.must(err)
	f.equal("trimmed stream", texts(h.Publications), []string{"d=6@6", "d removed@7"})
	f.equal("one entry", texts(f.state(channel.StateFilter{Key: "a"}).Entries), []string{"a=2@2"})
	f.equal("no entry", len(f.state(channel.StateFilter{Key: "d"}).Entries), 0)
	_, err = f.maps.Change(context.Background(), f.ch, &channel.Publication{}, o)
	f.equal("change without key", err, error(protocol.ErrorBadRequest))
}

func testConditions(f *fixture) {
	o := f.options()
	ifNew, ifExists := o, o
	ifNew.KeyMode, ifExists.KeyMode = channel.KeyIfNew, channel.KeyIfExists
	for _, step := range []struct {
		result channel.MapResult
		why    broker.SuppressReason
		offset uint64
	}{
		{f.remove("a", o), channel.SuppressKeyNotFound, 0},
		{f.set("a", "1", ifExists), channel.SuppressKeyNotFound, 0},
		{f.set("a", "2", ifNew), "", 1},
		{f.set("a", "3", ifNew), channel.SuppressKeyExists, 1},
		{f.set("a", "4", ifExists), "", 2},
		{f.remove("b", o), channel.SuppressKeyNotFound, 2},
		{f.remove("a", o), "", 3},
		{f.set("a", "5", ifNew), "", 4},
	} {
		if step.result.Suppressed != step.why || step.result.Position.Offset != step.offset || step.result.Position.Epoch == "" {
			f.Errorf("%+v, want offset %d, %q", step.result, step.offset, step.why)
		}
	}
	f.wantEvents("a=2@1", "a=4@2", "a removed@3", "a=5@4")
}

func testExpected(f *fixture) {
	o := f.options()
	at := func(offset uint64, epoch string) channel.MapOptions {
		o := o
		o.Expected = &channel.StreamPosition{Offset: offset, Epoch: epoch}
		return o
	}
	f.equal("a new entry that should exist", f.set("a", "0", at(1, "")).Suppressed, channel.SuppressPositionMismatch)
	epoch := f.set("a", "1", at(0, "")).Position.Epoch
	f.set("b", "2", o)
	f.equal("by offset", f.set("a", "3", at(1, "")).Suppressed, made)
	f.equal("by position", f.set("a", "4", at(3, epoch)).Suppressed, made)
	for _, wrong := range []channel.MapOptions{at(3, ""), at(4, "other"), at(0, "")} {
		for _, got := range []channel.MapResult{f.set("a", "5", wrong), f.remove("a", wrong)} {
			if got.Suppressed != channel.SuppressPositionMismatch || got.Current == nil || text(got.Current) != "a=4@4" {
				f.Errorf("%+v", got)
			}
		}
	}
	if got := f.remove("x", at(4, "")); got.Suppressed != channel.SuppressPositionMismatch || got.Current != nil {
		f.Errorf("%+v", got)
	}
	f.equal("removal", f.remove("a", at(4, epoch)).Suppressed, made)
	f.wantEvents("a=1@1", "b=2@2", "a=3@3", "a=4@4", "a removed@5")
}

func testVersions(f *fixture) {
	o := f.options()
	set := func(version uint64, epoch string, mode channel.KeyMode) broker.SuppressReason {
		o := o
		o.VersionEpoch, o.KeyMode = epoch, mode
		return f.change(channel.Publication{Key: "a", Version: version}, o).Suppressed
	}
	for i, step := range []struct {
		got, want broker.SuppressReason
	}{
		{set(5, "", ""), ""}, {set(5, "", ""), broker.SuppressVersion}, {set(4, "", channel.KeyIfNew), broker.SuppressVersion},
		{set(0, "", ""), ""}, {set(5, "", ""), broker.SuppressVersion}, {set(6, "", ""), ""},
		{set(1, "x", ""), ""}, {set(1, "x", ""), broker.SuppressVersion}, {set(1, "", ""), broker.SuppressVersion}, {set(1, "y", ""), ""},
	} {
		f.equal(fmt.Sprint("step ", i), step.got, step.want)
	}
	f.equal("another key", f.change(channel.Publication{Key: "b", Version: 1}, o).Suppressed, made)
	f.remove("a", o)
	f.equal("after a removal", set(1, "y", ""), made)
}

func testIdempotency(f *fixture) {
	o := f.options()
	once := func(key string) channel.MapOptions {
		o := o
		o.IdempotencyKey, o.IdempotencyTTL = key, 2*f.unit
		return o
	}
	ifExists := once("x")
	ifExists.KeyMode = channel.KeyIfExists
	f.equal("a suppressed change", f.set("a", "1", ifExists).Suppressed, channel.SuppressKeyNotFound)
	first := f.set("a", "2", once("x")) // the key was not taken
	f.set("a", "3", o)
	for _, again := range []channel.MapResult{f.set("b", "4", once("x")), f.remove("a", once("x"))} {
		f.equal("again", again, channel.MapResult{Position: first.Position, Suppressed: broker.SuppressIdempotency})
	}
	f.equal("removal", f.remove("a", once("y")).Suppressed, made)
	f.equal("removal again", f.remove("a", once("y")).Suppressed, broker.SuppressIdempotency)
	f.advance(3)
	f.equal("later", f.set("a", "5", once("x")).Suppressed, made)
	f.wantEvents("a=2@1", "a=3@2", "a removed@3", "a=5@4")
}

func testPages(f *fixture) {
	o := f.options()
	var want []string
	for i := range 25 {
		if i%5 == 0 { // not in the order of the keys
			f.set(fmt.Sprint("z", i), "x", o)
			f.remove(fmt.Sprint("z", i), o)
		}
		f.set(fmt.Sprintf("k%02d", 24-i), "x", o)
		want = append(want, fmt.Sprintf("k%02d", i))
	}
	for _, limit := range []int{1, 2, 5, 24, 25, 26, -1} {
		var got []string
		for cursor := ""; ; {
			s := f.state(channel.StateFilter{Cursor: cursor, Limit: limit})
			if limit > 0 && len(s.Entries) > limit || s.Count != 25 || s.Top.Offset != 35 {
				f.Fatalf("limit %d: %+v", limit, s)
			}
			for _, p := range s.Entries {
				got = append(got, p.Key)
			}
			cursor = s.Cursor
			if cursor == "" {
				break
			}
		}
		f.equal(fmt.Sprint("limit ", limit), got, want)
	}
	if s := f.state(channel.StateFilter{}); len(s.Entries) != 0 || s.Count != 25 || s.Top.Offset != 35 {
		f.Errorf("%+v", s)
	}
	f.begin()
	epoch := f.wantState().Top.Epoch
	f.equal("epoch of an empty channel", f.set("a", "1", o).Position, channel.StreamPosition{Offset: 1, Epoch: epoch})
}

func testEphemeral(f *fixture) {
	o := channel.MapOptions{KeyTTL: 2 * f.unit}
	f.equal("result", f.set("a", "1", o), channel.MapResult{})
	f.set("b", "1", o)
	f.equal("removal", f.remove("b", o), channel.MapResult{})
	f.equal("removal of nothing", f.remove("b", o), channel.MapResult{Suppressed: channel.SuppressKeyNotFound})
	f.advance(1)
	f.clock.BeginPart(o.KeyTTL)
	f.set("a", "2", o)
	for _, e := range f.wantEvents("a=1@0", "b=1@0", "b removed@0", "a=2@0") {
		f.equal("epoch", e.Epoch, "")
	}
	f.wantState("a=2@0")
	f.clock.EndPart()
	f.wantEvents("a removed@0")
	f.wantState()
	for _, bad := range []struct {
		pub channel.Publication
		o   channel.MapOptions
	}{
		{channel.Publication{Key: "a"}, channel.MapOptions{}},
		{channel.Publication{Key: "a", Version: 1}, o},
		{channel.Publication{Key: "a"}, channel.MapOptions{KeyTTL: f.unit, Expected: &channel.StreamPosition{}}},
	} {
		_, err := f.maps.Change(context.Background(), f.ch, &bad.pub, bad.o)
		f.equal("bad", err, error(protocol.ErrorBadRequest))
	}
}

func testExpiry(f *fixture) {
	o := f.options()
	o.KeyTTL = 3 * f.unit
	f.clock.BeginPart(o.KeyTTL)
	f.change(channel.Publication{Key: "a", Data: []byte("1"), Tags: map[string]string{"t": "a"}}, o)
	f.set("b", "2", f.options())
	o.KeyTTL = 10 * f.unit // long after a has gone
	f.set("c", "3", o)
	f.wantEvents("a=1@1", "b=2@2", "c=3@3")
	f.clock.EndPart()
	f.clock.BeginPart(6 * f.unit)
	expired := f.wantEvents("a removed@4")[0]
	if expired.Pub.Tags["t"] != "a" || expired.Pub.Time == 0 || expired.Epoch == "" {
		f.Errorf("%+v", expired)
	}
	f.equal("top", f.wantState("b=2@2", "c=3@3").Top, channel.StreamPosition{Offset: 4, Epoch: expired.Epoch})
	f.clock.EndPart()
	f.wantEvents("c removed@5")
	h, err := f.broker.History(context.Background(), f.ch, broker.HistoryFilter{Limit: -1})
	f.must(err)
	f.equal("stream", texts(h.Publications), []string{"a=1@1", "b=2@2", "c=3@3", "a removed@4", "c removed@5"})
	o.KeyTTL = 0
	f.set("b", "6", o)
	f.advance(10)
	f.wantState("b=6@6")

	f.clock.BeginPart(20 * f.unit)
	for key, ttl := range map[string]time.Duration{"d": 20, "e": 30, "f": 40} {
		o.KeyTTL = ttl * f.unit
		f.set(key, "7", o)
	}
	f.read += 4
	o.KeyTTL = 2 * f.unit
	f.set("e", "8", o) // it lives shorter than before
	f.advance(4)
	f.wantEvents("e=8@10", "e removed@11")
	f.clock.EndPart()
}

func testRefresh(f *fixture) {
	o := f.options()
	o.KeyTTL, o.KeyMode, o.RefreshTTL = 4*f.unit, channel.KeyIfNew, true
	for range 4 {
		f.clock.BeginPart(o.KeyTTL)
		f.set("a", "1", o)
		f.advance(2)
	}
	f.wantEvents("a=1@1")
	o.RefreshTTL = false
	f.equal("without", f.set("a", "2", o).Suppressed, channel.SuppressKeyExists)
	f.clock.EndPart()
	f.wantEvents("a removed@2")

	f.begin()
	o.KeyTTL, o.RefreshTTL = 100*f.unit, true
	f.set("a", "1", o)
	o.KeyTTL = 2 * f.unit // it may also end its life earlier
	f.set("a", "1", o)
	f.wantEvents("a=1@1", "a removed@2")
}

// Top and epoch of a map live as long as its changes say, and as it has entries.
func testLives(f *fixture) {
	o := f.options()
	o.StreamTTL, o.MetaTTL = 2*f.unit, 4*f.unit
	first := f.set("a", "1", o).Position
	f.advance(8)
	h, err := f.broker.History(context.Background(), f.ch, broker.HistoryFilter{Limit: -1, MetaTTL: f.unit})
	f.must(err)
	f.equal("history", h.Top, first)
	f.equal("expired changes", len(h.Publications), 0)
	f.advance(2)
	f.equal("top", f.wantState("a=1@1").Top, first)
	f.remove("a", o)
	_, err = f.broker.History(context.Background(), f.ch, broker.HistoryFilter{MetaTTL: f.unit})
	f.must(err)
	f.advance(2)
	f.equal("after the removal", f.state(channel.StateFilter{}).Top, channel.StreamPosition{Offset: 2, Epoch: first.Epoch})
	f.advance(4)
	if top := f.state(channel.StateFilter{}).Top; top.Offset != 0 || top.Epoch == first.Epoch {
		f.Errorf("%+v after %+v", top, first)
	}
	o.MetaTTL = 0
	forever := f.set("a", "1", o).Position
	f.remove("a", o)
	f.advance(10)
	f.equal("for ever", f.state(channel.StateFilter{}).Top, channel.StreamPosition{Offset: 2, Epoch: forever.Epoch})
}

func testClear(f *fixture) {
	f.must(f.maps.Clear(context.Background(), f.ch))
	epoch := f.set("a", "1", f.options()).Position.Epoch
	f.wantEvents("a=1@1")
	f.must(f.maps.Clear(context.Background(), f.ch))
	if top := f.wantState().Top; top.Offset != 0 || top.Epoch == epoch {
		f.Errorf("%+v after epoch %s", top, epoch)
	}
	wait.Until(f, "the subscribers to be told", func() bool { return f.events.Lost(f.ch, 1) })
	f.equal("a new beginning", f.set("a", "2", f.options()).Position.Offset, uint64(1))
	f.wantEvents("a=2@1")
}

func testDelta(f *fixture) {
	o := f.options()
	o.Delta = true
	f.set("a", "1", o)
	f.set("b", "2", o)
	f.set("a", "3", o)
	f.set("a", "4", f.options())
	f.remove("a", o)
	f.set("a", "6", o)
	bases := []string{"", "", "a=1@1", "", "a=4@4", ""}
	for i, e := range f.wantEvents("a=1@1", "b=2@2", "a=3@3", "a=4@4", "a removed@5", "a=6@6") {
		base := ""
		if e.Delta && e.Prev != nil {
			base = text(e.Prev)
		}
		f.equal(fmt.Sprint("base of change ", i), base, bases[i])
	}
	// By the tags of the base the node knows whether a subscriber with a filter has it.
	tags := map[string]string{"t": "1"}
	f.change(channel.Publication{Key: "a", Data: []byte("7"), Tags: tags}, o)
	f.set("a", "8", o)
	events := f.wantEvents("a=7@7", "a=8@8")
	f.equal("tags of the base before", len(events[0].Prev.Tags), 0)
	f.equal("tags of the base", events[1].Prev.Tags, tags)
}

func testOneWins(f *fixture) {
	o := f.options()
	o.KeyMode = channel.KeyIfNew
	for round := range 20 {
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if f.set(fmt.Sprint("k", round), fmt.Sprint(i), o).Suppressed == "" {
					won.Add(1)
				}
			})
		}
		all.Wait()
		f.equal("winners", won.Load(), int32(1))
	}
	f.equal("top", f.state(channel.StateFilter{}).Top.Offset, uint64(20))
}

// testPagesUnderChange: the pages and the changes since the first page are the state.
func testPagesUnderChange(f *fixture) {
	o := f.options()
	o.StreamSize = 100_000
	key := func(i int) string { return fmt.Sprint("k", i%150) }
	for i := range 100 {
		f.set(key(i), fmt.Sprint(i), o)
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%3 == 0 {
				f.remove(key(i*7), o)
			} else {
				f.set(key(i*7), fmt.Sprint(i), o)
			}
		}
	})
	for range 10 {
		f.follow()
	}
	close(stop)
	writer.Wait()
}

func (f *fixture) follow() {
	f.Helper()
	page := f.state(channel.StateFilter{Limit: 7})
	since, got := page.Top, map[string]string{}
	for {
		for _, p := range page.Entries {
			if p.Offset <= since.Offset { // the others come with the changes
				got[p.Key] = text(p)
			}
		}
		if page.Cursor == "" {
			break
		}
		page = f.state(channel.StateFilter{Limit: 7, Cursor: page.Cursor})
	}
	want := f.state(channel.StateFilter{Limit: -1})
	h, err := f.broker.History(context.Background(), f.ch, broker.HistoryFilter{Limit: -1, Since: &since})
	f.must(err)
	for _, p := range h.Publications {
		switch {
		case p.Offset > want.Top.Offset:
		case p.Removed:
			delete(got, p.Key)
		default:
			got[p.Key] = text(p)
		}
	}
	entries := map[string]string{}
	for _, p := range want.Entries {
		entries[p.Key] = text(p)
	}
	f.equal("pages and changes", got, entries)
}
