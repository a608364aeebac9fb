package recovery

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// store is a stream in epoch A, whose first publications may have been dropped.
type store struct{ first, top uint64 }

// read does what engines do.
func (s store) read(f channel.HistoryFilter) channel.History {
	h := channel.History{Top: channel.StreamPosition{Offset: s.top, Epoch: "A"}}
	if f.Limit == 0 {
		return h
	}
	for o := s.first; o <= s.top; o++ {
		if f.Since == nil || o > f.Since.Offset {
			tag := map[string]string{"odd": fmt.Sprint(o%2 == 1)}
			h.Publications = append(h.Publications, &channel.Publication{Offset: o, Data: []byte("12345678"), Tags: tag})
		}
	}
	if f.Reverse {
		slices.Reverse(h.Publications)
	}
	if f.Limit > 0 && len(h.Publications) > f.Limit {
		h.Publications = h.Publications[:f.Limit]
	}
	return h
}

// latest is a third way, as it might be for a map: a subscriber gets what changed since, is
// told where the stream is now, and is refused if that is not to be had.
type latest struct{ Strategy }

func (latest) Resume(r Request, h channel.History) (Missed, bool) {
	m, ok := Stream.Resume(r, h)
	m.Offset = h.Top.Offset
	return m, ok
}

func (latest) Lost(Request) error { return protocol.ErrorUnrecoverablePosition }

const ample = 1 << 20

func odd(tags map[string]string) bool { return tags["odd"] == "true" }

func TestStrategies(t *testing.T) {
	var (
		third  = latest{Stream}
		kept   = store{first: 4, top: 7}
		gone   = store{first: 8, top: 7}
		unused = store{first: 1, top: 0}
		lost   = protocol.ErrorUnrecoverablePosition
	)
	at := func(offset uint64, epoch string) Request {
		return Request{Since: channel.StreamPosition{Offset: offset, Epoch: epoch}, Limit: -1}
	}
	with := func(r Request, change func(*Request)) Request { change(&r); return r }
	filter := func(r *Request) { r.Filter = odd }
	reject := func(r *Request) { r.Reject = true }
	limit := func(n int) func(*Request) { return func(r *Request) { r.Limit = n } }
	for _, c := range []struct {
		name     string
		strategy Strategy
		stream   store
		request  Request
		budget   int
		// recovered and pubs are what is sent, with the offset; or err.
		recovered bool
		offset    uint64
		pubs      []uint64
		err       error
	}{
		{"two missed", Stream, kept, at(5, "A"), ample, true, 5, []uint64{6, 7}, nil},
		{"nothing missed", Stream, kept, at(7, "A"), ample, true, 7, nil, nil},
		{"all that is kept", Stream, kept, at(3, ""), ample, true, 3, []uint64{4, 5, 6, 7}, nil},
		{"trimmed", Stream, kept, at(2, "A"), ample, false, 7, nil, nil},
		{"trimmed, and refused", Stream, kept, with(at(2, "A"), reject), ample, false, 7, nil, lost},
		{"another epoch", Stream, kept, at(6, "B"), ample, false, 7, nil, nil},
		{"beyond the top", Stream, kept, at(9, "A"), ample, false, 7, nil, nil},
		{"at the limit", Stream, kept, with(at(5, "A"), limit(2)), ample, true, 5, []uint64{6, 7}, nil},
		{"above the limit", Stream, kept, with(at(4, "A"), limit(2)), ample, false, 7, nil, nil},
		{"filtered", Stream, kept, with(at(3, "A"), filter), ample, true, 3, []uint64{5, 7}, nil},
		{"all expired", Stream, gone, at(5, "A"), ample, false, 7, nil, nil},
		{"never used", Stream, unused, at(0, ""), ample, true, 0, nil, nil},
		{"too much", Stream, kept, at(5, "A"), 160, false, 7, nil, nil},
		{"too much, and refused", Stream, kept, with(at(5, "A"), reject), 160, false, 7, nil, lost},

		{"newest", Cache, kept, at(0, ""), ample, true, 0, []uint64{7}, nil},
		{"newest of another epoch", Cache, kept, at(5, "B"), ample, true, 6, []uint64{7}, nil},
		{"newest of a position above the top", Cache, kept, at(9, ""), ample, true, 6, []uint64{7}, nil},
		{"newest of a position without an epoch", Cache, kept, at(5, ""), ample, true, 5, []uint64{7}, nil},
		{"has the newest", Cache, kept, at(7, "A"), ample, true, 7, nil, nil},
		{"newest that passes", Cache, store{4, 8}, with(at(0, ""), filter), ample, true, 0, []uint64{7}, nil},
		{"none passes", Cache, store{8, 8}, with(at(0, ""), filter), ample, false, 8, nil, nil},
		{"not within the limit", Cache, store{4, 8}, with(with(at(0, ""), filter), limit(1)), ample, false, 8, nil, nil},
		{"none is kept", Cache, gone, with(at(5, "A"), reject), ample, false, 7, nil, nil},

		{"third", third, kept, at(5, "A"), ample, true, 7, []uint64{6, 7}, nil},
		{"third, lost", third, kept, at(2, "A"), ample, false, 7, nil, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			budget := c.budget
			h := c.stream.read(c.strategy.Query(c.request))
			m, recovered, err := Resume(c.strategy, c.request, h, &budget)
			var pubs []uint64
			for _, p := range m.Publications {
				pubs = append(pubs, p.Offset)
			}
			if recovered != c.recovered || m.Offset != c.offset || !slices.Equal(pubs, c.pubs) || !errors.Is(err, c.err) {
				t.Errorf("recovered %v with %v at %d, error %v", recovered, pubs, m.Offset, err)
			}
			if spent := c.budget - budget; spent < 8*len(pubs) || len(pubs) == 0 && spent > 0 {
				t.Errorf("%d bytes spent on %d publications", spent, len(pubs))
			}
		})
	}
}

func TestModes(t *testing.T) {
	if Of(channel.RecoverStream) != Stream || Of(channel.RecoverCache) != Cache {
		t.Error("a mode has another strategy")
	}
	if Stream.Automatic() || !Stream.Gapless() || !Cache.Automatic() || Cache.Gapless() {
		t.Error("only cache recovers by itself, and over gaps")
	}
	if f := Cache.Query(Request{Limit: 100}); f.Limit != 1 || !f.Reverse {
		t.Errorf("cache reads %+v", f)
	}
}

func TestFollows(t *testing.T) {
	for _, c := range []struct {
		top     channel.StreamPosition
		arrived []channel.StreamPosition
		want    bool
	}{
		{channel.StreamPosition{Offset: 7, Epoch: "A"}, nil, true},
		{channel.StreamPosition{Offset: 7, Epoch: "A"}, []channel.StreamPosition{{Offset: 6, Epoch: "A"}, {Offset: 8, Epoch: "A"}, {Offset: 8, Epoch: "A"}, {Offset: 9, Epoch: "A"}}, true},
		{channel.StreamPosition{Offset: 7, Epoch: "A"}, []channel.StreamPosition{{Offset: 9, Epoch: "A"}}, false},
		{channel.StreamPosition{Offset: 7, Epoch: "A"}, []channel.StreamPosition{{Offset: 8, Epoch: "A"}, {Offset: 10, Epoch: "A"}}, false},
		{channel.StreamPosition{Offset: 7, Epoch: "A"}, []channel.StreamPosition{{Offset: 8, Epoch: "B"}}, false},
		{channel.StreamPosition{}, []channel.StreamPosition{{Offset: 1, Epoch: "B"}}, true},
	} {
		if got := Follows(c.top, slices.Values(c.arrived)); got != c.want {
			t.Errorf("%v behind %v: %v", c.arrived, c.top, got)
		}
	}
}
