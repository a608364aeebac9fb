package outbox

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
