package sendqueue

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// brackets is a framer.
type brackets struct{ encoding protocol.Encoding }

func (f brackets) Encoding() protocol.Encoding { return f.encoding }
func (brackets) Headroom() int                 { return 3 }
func (brackets) Costly() bool                  { return false }
func (brackets) Frame(buf []byte) []byte {
	buf[2] = '['
	return append(buf[2:], ']')
}

// Replies of a connection stay in order with what else it gets, and those in a row
// share a frame, whatever other connections of the loop get meanwhile.
func TestGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			p     Pool
			f     brackets
			sinks [3]sink
			want  [3]strings.Builder // frames; messages are digits
			open  = -1               // whose last frame takes one more message
			qs    [3]Queue
		)
		closeFrame := func() {
			if open >= 0 {
				want[open].WriteByte(']')
			}
			open = -1
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "queue")
			q := &qs[i]
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				if open == i {
					closeFrame()
				}
				frame := fmt.Sprintf("(%d)", n)
				q.Push(&p, []byte(frame))
				want[i].WriteString(frame)
			case 1:
				if open == i {
					closeFrame()
				}
				sinks[i].limit = rapid.IntRange(0, 30).Draw(t, "limit")
				if err := q.Flush(&p, &sinks[i]); err != nil {
					t.Fatal(err)
				}
			case 2: // a message that cannot be encoded
				q.Open(&p, f)
				if open != i {
					closeFrame()
				}
			default:
				message := fmt.Sprint(n)
				if open == i {
					message = "\n" + message
				} else {
					closeFrame()
					want[i].WriteByte('[')
				}
				open = i
				want[i].WriteString(message)
				if size := q.Add(&p, append(q.Open(&p, f), fmt.Sprint(n)...)); size != q.Size() {
					t.Fatalf("Add returned %d, size is %d", size, q.Size())
				}
			}
		}
		closeFrame()
		for i := range qs {
			got := append(sinks[i].got, bytes.Join(qs[i].Take(&p), nil)...)
			if string(got) != want[i].String() {
				t.Fatalf("queue %d: got %q, want %q", i, got, want[i].String())
			}
		}
	})
}

// A frame that is full takes no more, and what was dropped does not come back.
func TestGatherLimits(t *testing.T) {
	var (
		p Pool
		q Queue
		f = brackets{protocol.Protobuf}
		s = sink{limit: 1 << 20}
	)
	large := bytes.Repeat([]byte("x"), MaxGather)
	for range 3 {
		q.Add(&p, append(q.Open(&p, f), large...))
	}
	if err := q.Flush(&p, &s); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(s.got, []byte("[")); n != 3 || len(s.got) != 3*(MaxGather+2) {
		t.Errorf("%d frames, %d bytes", n, len(s.got))
	}
	q.Add(&p, append(q.Open(&p, f), 'y'))
	q.Drop(&p)
	if q.Size() != 0 || q.Take(&p) != nil {
		t.Errorf("%d bytes after Drop", q.Size())
	}
}

func TestGatherAllocatesNothing(t *testing.T) {
	var (
		p Pool
		q Queue
		f transport.Framer = brackets{}
		s                  = sink{limit: 1 << 20, got: make([]byte, 0, 1<<20)}
	)
	allocs := testing.AllocsPerRun(1000, func() {
		s.got = s.got[:0]
		for range 3 {
			q.Add(&p, append(q.Open(&p, f), "message"...))
		}
		if err := q.Flush(&p, &s); err != nil {
			t.Fatal(err)
		}
		p.Arena.Reset()
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per frame", allocs)
	}
}

// turnOfLarge has several connections get a large reply each, and takes what they were sent.
func turnOfLarge(t testing.TB, p *Pool, connections, size int) {
	var f = brackets{protocol.JSON}
	qs := make([]Queue, connections)
	for i := range qs {
		q := &qs[i]
		open := q.Open(p, f)
		for range size {
			open = append(open, byte('a'+i%26))
		}
		q.Add(p, open)
	}
	for i := range qs {
		q := &qs[i]
		if err := q.Flush(p, checked{t, byte('a' + i%26), size}); err != nil {
			t.Fatal(err)
		}
	}
	p.Arena.Reset()
}

// checked takes one frame of brackets, which holds one letter again and again.
type checked struct {
	t      testing.TB
	letter byte
	size   int
}

func (c checked) Write(frames [][]byte) (int, error) {
	if len(frames) != 1 || len(frames[0]) != c.size+2 || bytes.Count(frames[0], []byte{c.letter}) != c.size {
		c.t.Errorf("%c: got %d frames", c.letter, len(frames))
	}
	return c.size + 2, nil
}

// Large frames of one turn do not share memory, and later turns use their buffers again, but keep no more than
// a bound.
func TestLargeFrames(t *testing.T) {
	var p Pool
	for range 3 {
		turnOfLarge(t, &p, 10, 20_000)
		if n := len(p.Arena.spare); n < 9 || n > 10 {
			t.Errorf("%d buffers are kept", n)
		}
	}
	turnOfLarge(t, &p, 60, 50_000)
	if n := p.Arena.spareSize; n > MaxLarge || n < MaxLarge/2 {
		t.Errorf("%d bytes are kept", n)
	}
	if n := p.Arena.Large(); n != 0 {
		t.Errorf("%d bytes in a new turn", n)
	}
}

// A turn with large frames allocates none of them again.
func TestLargeAlloc(t *testing.T) {
	var p Pool
	var f = brackets{protocol.JSON}
	reply := bytes.Repeat([]byte("x"), 20_000)
	var q Queue
	s := &sink{}
	if n := testing.AllocsPerRun(100, func() {
		for range 5 {
			q.Add(&p, append(q.Open(&p, f), reply...))
			s.limit, s.got = len(reply)+2, s.got[:0]
			_ = q.Flush(&p, s)
		}
		p.Arena.Reset()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
