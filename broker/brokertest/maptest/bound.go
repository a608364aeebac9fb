package maptest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/internal/record"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const full = channel.SuppressMapFull

func testMaxEntries(f *fixture) {
	for what, free := range map[string]channel.MapOptions{"stream": f.options(), "ephemeral": {KeyTTL: 1000 * f.unit}} {
		f.begin()
		o := free
		o.MaxEntries = 2
		for i, step := range []struct {
			got, want broker.SuppressReason
		}{
			{f.set("a", "1", o).Suppressed, made},
			{f.set("b", "2", o).Suppressed, made},
			{f.set("c", "", o).Suppressed, full},
			{f.set("a", "3", o).Suppressed, made},
			{f.remove("c", o).Suppressed, channel.SuppressKeyNotFound},
			{f.remove("b", o).Suppressed, made},
			{f.set("c", "5", o).Suppressed, made},
			{f.set("d", "", o).Suppressed, full},
			{f.set("d", "6", free).Suppressed, made}, // a changer that the bound does not stop
			{f.set("e", "", o).Suppressed, full},
			{f.set("d", "7", o).Suppressed, made},
			{f.remove("a", o).Suppressed, made},
			{f.set("e", "", o).Suppressed, full},
			{f.remove("c", o).Suppressed, made},
			{f.set("e", "10", o).Suppressed, made},
		} {
			f.equal(fmt.Sprint(what, ", step ", i), step.got, step.want)
		}
		if what == "stream" {
			f.wantEvents("a=1@1", "b=2@2", "a=3@3", "b removed@4", "c=5@5", "d=6@6", "d=7@7", "a removed@8", "c removed@9", "e=10@10")
			f.equal("result", f.set("f", "", o), channel.MapResult{Position: f.wantState("d=7@7", "e=10@10").Top, Suppressed: full})
		} else {
			f.wantEvents("a=1@0", "b=2@0", "a=3@0", "b removed@0", "c=5@0", "d=6@0", "d=7@0", "a removed@0", "c removed@0", "e=10@0")
			f.wantState("d=7@0", "e=10@0")
			f.equal("result", f.set("f", "", o), channel.MapResult{Suppressed: full})
		}
		f.must(f.maps.Clear(context.Background(), f.ch))
		f.equal("after a clear", f.set("g", "11", o).Suppressed, made)
	}
}

// testMaxEntriesConditions: other conditions decide before the bound, and the bound leaves nothing behind.
func testMaxEntriesConditions(f *fixture) {
	o := f.options()
	o.MaxEntries = 1
	with := func(mode channel.KeyMode, once string, expected *channel.StreamPosition) channel.MapOptions {
		o := o
		o.KeyMode, o.IdempotencyKey, o.Expected = mode, once, expected
		return o
	}
	version := func(key string, version uint64) broker.SuppressReason {
		return f.change(channel.Publication{Key: key, Data: []byte("v"), Version: version}, o).Suppressed
	}
	for i, step := range []struct {
		got, want broker.SuppressReason
	}{
		{f.set("a", "1", with("", "x", nil)).Suppressed, made},
		{f.set("a", "", with("", "x", nil)).Suppressed, broker.SuppressIdempotency},
		{f.set("b", "", with("", "x", nil)).Suppressed, broker.SuppressIdempotency},
		{f.set("b", "", with("", "y", nil)).Suppressed, full},
		{f.set("b", "", with(channel.KeyIfNew, "", nil)).Suppressed, full},
		{f.set("a", "", with(channel.KeyIfNew, "", nil)).Suppressed, channel.SuppressKeyExists},
		{f.set("b", "", with(channel.KeyIfExists, "", nil)).Suppressed, channel.SuppressKeyNotFound},
		{f.set("a", "2", with(channel.KeyIfExists, "", nil)).Suppressed, made},
		{f.set("b", "", with("", "", &channel.StreamPosition{Offset: 1})).Suppressed, channel.SuppressPositionMismatch},
		{f.set("b", "", with("", "", &channel.StreamPosition{})).Suppressed, full},
		{f.set("a", "3", with("", "", &channel.StreamPosition{Offset: 2})).Suppressed, made},
		{version("b", 5), full},
		{f.remove("a", o).Suppressed, made},
		{f.set("b", "5", with("", "y", nil)).Suppressed, made}, // the key was not taken
		{version("b", 1), made},                                // nor the version
		{version("b", 1), broker.SuppressVersion},
	} {
		f.equal(fmt.Sprint("step ", i), step.got, step.want)
	}
	f.wantEvents("a=1@1", "a=2@2", "a=3@3", "a removed@4", "b=5@5", "b=v@6")
}

// testMaxEntriesExpiry: an entry that expires leaves room for another.
func testMaxEntriesExpiry(f *fixture) {
	for what, o := range map[string]channel.MapOptions{"stream": f.options(), "ephemeral": {KeyTTL: 1000 * f.unit}} {
		f.begin()
		at := func(entry string, offset int) string {
			if what == "ephemeral" {
				offset = 0
			}
			return fmt.Sprint(entry, "@", offset)
		}
		o.MaxEntries = 2
		soon := o
		soon.KeyTTL = 2 * f.unit
		f.clock.BeginPart(soon.KeyTTL)
		f.set("a", "1", soon)
		f.set("b", "2", o)
		f.equal("two entries", f.set("c", "", o).Suppressed, full)
		f.wantEvents(at("a=1", 1), at("b=2", 2))
		f.clock.EndPart()
		f.wantEvents(at("a removed", 3))
		f.equal("one has expired", f.set("c", "4", o).Suppressed, made)
		f.equal("two again", f.set("d", "", o).Suppressed, full)
		f.wantState(at("b=2", 2), at("c=4", 4))
	}
}

// testMaxEntriesRace: clients of one node, whose changes an engine may make together, race for the last room.
func testMaxEntriesRace(f *fixture) {
	raceForRoom([]*fixture{f, f, f, f})
}

func testNodesMaxEntries(nodes []*fixture) {
	raceForRoom([]*fixture{nodes[0], nodes[1], nodes[0], nodes[1]})
}

// raceForRoom: each writer sets new keys and removes some. The map never exceeds the bound, and is full in the end.
func raceForRoom(writers []*fixture) {
	const most = 5
	f := writers[0]
	o := f.options()
	o.MaxEntries = most
	var changes, refused atomic.Int64
	var all sync.WaitGroup
	change := func(w *fixture, pub channel.Publication) {
		switch w.change(pub, o).Suppressed {
		case made:
			changes.Add(1)
		case full:
			refused.Add(1)
		}
	}
	for i, w := range writers {
		for j := range 4 {
			all.Go(func() {
				for round := range 12 {
					key := fmt.Sprint(i, "-", j, "-", round)
					change(w, channel.Publication{Key: key, Data: []byte("1")})
					if round%3 < 2 {
						change(w, channel.Publication{Key: key, Removed: true})
					}
				}
			})
		}
	}
	all.Wait()
	for i := range most {
		change(f, channel.Publication{Key: fmt.Sprint("last", i), Data: []byte("1")})
	}
	f.equal("entries in the end", f.state(channel.StateFilter{}).Count, most)
	if refused.Load() == 0 {
		f.Error("nobody was refused")
	}
	// The subscribers have seen each state in between.
	events, err := f.events.Wait(f.ch, wait.Limit, record.AtLeast(f.read+int(changes.Load())))
	f.must(err)
	entries := map[string]bool{}
	for _, e := range events[f.read:] {
		entries[e.Pub.Key] = true
		if e.Pub.Removed {
			delete(entries, e.Pub.Key)
		}
		if len(entries) > most {
			f.Fatalf("%d entries behind %s", len(entries), text(e.Pub))
		}
	}
}
