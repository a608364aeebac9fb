package pubsub

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// source100 is 100-byte messages on 100 channels, as a server sends them.
func source100() (data []byte, n int) {
	for i := range 500 {
		data = append(data, ">3\r\n"...)
		for _, s := range []string{"message", fmt.Sprintf("centrifugo.client.channel:%02d", i%100), strings.Repeat("x", 100)} {
			data = resp.AppendBulk(data, s)
		}
	}
	return data, 500
}

// tape is a connection that confirms the canaryChannel channel and then plays messages,
// burst of them per read.
type tape struct {
	net.Conn // not used otherwise
	data     []byte
	size     int // of a message
	burst    int
	left     int // messages to be played
	pos      int
	begun    bool
	asked    chan struct{} // the subscription was sent
	ready    chan struct{} // messages may be played
	closed   chan struct{}
}

func (t *tape) Write(p []byte) (int, error)        { enginekit.Signal(t.asked); return len(p), nil }
func (t *tape) SetWriteDeadline(_ time.Time) error { return nil }
func (t *tape) Close() error                       { close(t.closed); return nil }

func (t *tape) Read(p []byte) (int, error) {
	if !t.begun {
		t.begun = true
		<-t.asked
		return copy(p, ">3\r\n$9\r\nsubscribe\r\n$18\r\n"+canaryChannel+"\r\n:1\r\n"), nil
	}
	select {
	case <-t.ready:
	case <-t.closed:
		return 0, net.ErrClosed
	}
	if t.left <= 0 {
		<-t.closed
		return 0, net.ErrClosed
	}
	n := copy(p, t.data[t.pos:min(len(t.data), t.pos+t.burst*t.size)])
	t.pos = (t.pos + n) % len(t.data)
	t.left -= n / t.size
	return n, nil
}

// play has a Conn receive n messages, burst at a time, between begin and end.
func play(tb testing.TB, n, burst int, begin, end func()) {
	data, count := source100()
	t := &tape{
		data: data, size: len(data) / count, burst: burst, left: n,
		asked: make(chan struct{}, 1), ready: make(chan struct{}), closed: make(chan struct{}),
	}
	done := make(chan struct{})
	received := 0
	conn := New(Config{
		Dial:          func(context.Context) (net.Conn, error) { return t, nil },
		Publish:       func(context.Context, string, []byte) error { return nil },
		CanaryChannel: canaryChannel, CanaryInterval: time.Hour,
		Message: func(_, _ []byte, memory *Chunk) {
			memory.Free(1)
			if received++; received == n {
				close(done)
			}
		},
	})
	defer conn.Close()
	if err := conn.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	begin()
	close(t.ready)
	<-done
	end()
}

// BenchmarkReceive is what a message costs from the read to the handler, when burst
// messages arrive at a time. The handler does nothing.
func BenchmarkReceive(b *testing.B) {
	for _, burst := range []int{1, 10, 500} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			b.ReportAllocs()
			play(b, b.N, burst, b.ResetTimer, b.StopTimer)
		})
	}
}

// A message costs its share of a chunk and nothing else.
func TestReceiveAllocs(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	play(t, n, 100, func() { runtime.ReadMemStats(&before) }, func() { runtime.ReadMemStats(&after) })
	if perMessage := float64(after.Mallocs-before.Mallocs) / n; perMessage > 0.01 {
		t.Errorf("%.3f allocations per message", perMessage)
	}
}
