package changefeed

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// follower is a worker without a database, and what it delivers.
type follower struct {
	*worker
	row []byte
	got []string
}

func newFollower(cursor int64) *follower {
	fl := &follower{}
	f := New(Config{
		Fanout: &Fanout{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Connections: func() uint64 { return 0 },
	}, &Table{
		Name: "t", Shards: 1,
		Encode:  func(_ int, dst []byte) []byte { return append(dst, fl.row...) },
		Decode:  func(_ int, data []byte) error { fl.row = data; return nil },
		Deliver: func(int, int64) { fl.got = append(fl.got, string(fl.row)) },
	})
	fl.worker = f.workers[0][0]
	fl.cursor.Store(cursor)
	fl.created = at(cursor)
	return fl
}

func at(id int64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + id) }

func batch(prev int64, ids ...int64) []byte {
	var m message
	m.begin(prev, at(prev))
	for _, id := range ids {
		m.add(id, at(id), fmt.Append(nil, id))
	}
	return m.encode()
}

func TestApply(t *testing.T) {
	foreign := func() []byte { // a row 10 that is another one
		var m message
		m.begin(10, at(11))
		m.add(12, at(12), []byte("12"))
		return m.encode()
	}()
	for name, c := range map[string]struct {
		message []byte
		ok      bool
		doubt   bool
		cursor  int64
		got     []string
	}{
		"what follows":          {batch(10, 12, 15), true, false, 15, []string{"12", "15"}},
		"what was read":         {batch(3, 5, 9), true, false, 10, nil},
		"what was read, all":    {batch(3, 5, 10), true, false, 10, nil},
		"some was read":         {batch(3, 10, 11), true, false, 11, []string{"11"}},
		"a hole":                {batch(11, 12), false, false, 10, nil},
		"another row":           {foreign, false, true, 10, nil},
		"another row, the last": {func() []byte { var m message; m.begin(3, at(3)); m.add(10, at(9), nil); return m.encode() }(), false, true, 10, nil},
		"nothing":               {nil, false, false, 10, nil},
		"another version":       {[]byte{2, 0, 0, 0, 0}, false, false, 10, nil},
		"the end is missing":    {func() []byte { b := batch(10, 12, 15); return b[:len(b)-1] }(), false, false, 12, []string{"12"}},
	} {
		fl := newFollower(10)
		if ok := fl.apply(c.message); ok != c.ok || fl.doubt.Load() != c.doubt || fl.cursor.Load() != c.cursor || !slices.Equal(fl.got, c.got) {
			t.Errorf("%s: %v, in doubt: %v, cursor %d, delivered %q", name, ok, fl.doubt.Load(), fl.cursor.Load(), fl.got)
		}
		if known := !fl.created.IsZero(); known && !fl.created.Equal(at(fl.cursor.Load())) {
			t.Errorf("%s: the last row is of %v", name, fl.created)
		}
	}
	fl := newFollower(10)
	for _, data := range [][]byte{batch(10, 12), batch(12, 13, 14), batch(12, 13, 14), batch(14, 20)} {
		if !fl.apply(data) {
			t.Error("a message does not fit")
		}
	}
	if !slices.Equal(fl.got, []string{"12", "13", "14", "20"}) {
		t.Errorf("delivered %q", fl.got)
	}
}

// TestGather: long pages make several messages, and a row that is too large makes a hole.
func TestGather(t *testing.T) {
	leader, fl := newFollower(0), newFollower(0)
	leader.message.begin(0, time.Time{})
	for id := int64(1); id <= 6; id++ {
		leader.row = make([]byte, fullMessage/2)
		if id == 5 {
			leader.row = make([]byte, MaxMessage)
		}
		leader.gather(id, at(id))
	}
	leader.flush()
	var ok []bool
	for len(leader.sending) > 0 {
		data := <-leader.sending
		if len(data) > MaxMessage {
			t.Errorf("a message has %d bytes", len(data))
		}
		ok = append(ok, fl.apply(data))
	}
	if !slices.Equal(ok, []bool{true, true, false}) || len(fl.got) != 4 {
		t.Errorf("%v, %d rows", ok, len(fl.got))
	}
}
