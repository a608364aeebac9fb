package sendqueue

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// sink takes at most limit bytes a call.
type sink struct {
	limit int
	got   []byte
}

func (s *sink) Write(frames [][]byte) (int, error) {
	room := s.limit
	for _, f := range frames {
		k := min(room, len(f))
		s.got = append(s.got, f[:k]...)
		room -= k
	}
	return s.limit - room, nil
}

// Whatever parts the peer takes, every byte arrives once and in order.
func TestPartialWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			q    Queue
			p    Pool
			want []byte
			s    sink
		)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				f := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "frame")
				want = append(want, f...)
				if n := q.Push(&p, f); n != q.Size() {
					t.Fatalf("Push returned %d, size is %d", n, q.Size())
				}
				continue
			}
			s.limit = rapid.IntRange(0, 100).Draw(t, "limit")
			if err := q.Flush(&p, &s); err != nil {
				t.Fatal(err)
			}
		}
		if q.Size() != len(want)-len(s.got) {
			t.Fatalf("size %d, want %d", q.Size(), len(want)-len(s.got))
		}
		rest := bytes.Join(q.Take(&p), nil)
		if got := append(s.got, rest...); !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var (
		q Queue
		p Pool
		s = sink{limit: 1 << 20, got: make([]byte, 0, 1<<20)}
		f = make([]byte, 100)
	)
	allocs := testing.AllocsPerRun(1000, func() {
		s.got = s.got[:0]
		q.Push(&p, f)
		q.Push(&p, f)
		if err := q.Flush(&p, &s); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per push and flush", allocs)
	}
}
