package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// lines is a transport.Framer: it puts each message on a line of its own.
type lines struct{}

func (*lines) Encoding() protocol.Encoding { return protocol.JSON }
func (*lines) Headroom() int               { return 0 }
func (*lines) Costly() bool                { return false }
func (*lines) Frame(buf []byte) []byte     { return append(buf, '\n') }

// sink is a client's connection that takes everything, and counts the messages, by
// their size: all are alike, and come in frames of one or many.
type sink struct {
	size     int // of a message with its line break; 0: every write is one message
	messages atomic.Int64
	changed  chan struct{}
}

func (s *sink) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		n += len(f)
	}
	if s.size > 0 {
		s.messages.Add(int64(n / s.size))
	} else {
		s.messages.Add(1)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return n, nil
}
func (s *sink) Close(protocol.Disconnect, [][]byte) {}
func (s *sink) Pause(bool)                          {}

// await waits until the client has got n messages.
func (s *sink) await(n int64) {
	for s.messages.Load() < n {
		<-s.changed
	}
}

// BenchmarkReceiveToClient is the way of a publication from Redis to a client, but
// for the write: its cost in this process is cpu-ns/op. Publications come one by one
// or in bursts. Another process has Redis publish them.
func BenchmarkReceiveToClient(b *testing.B) {
	for _, burst := range []int{1, 10, 500} {
		b.Run(fmt.Sprint("burst=", burst), func(b *testing.B) { receiveToClient(b, burst) })
	}
}

func receiveToClient(b *testing.B, burst int) {
	server := redistest.Standalone(b, redistest.Options{})
	client := subscriber(b, redis.Config{Shards: []redis.Shard{standalone(server)}})
	data := `{"t":"message","d":"` + strings.Repeat("x", 106) + `"}`
	client.size = len(`{"push":{"channel":"ch","pub":{"data":}}}`) + len(data) + 1
	message := fmt.Sprintf(`\34\128\1%s`, data) // field 4 of 128 bytes
	publish := publisher(b, server.Addr(), fmt.Sprintf("for i = 1, %d do redis.call('PUBLISH', 'gyro.client.ch', '%s') end", burst, message))
	// While some bursts are delivered the next ones are published, so that nobody sleeps
	// much: the waking of threads is dear, and counts where it is caused.
	round := int64(burst * bursts)
	want := client.messages.Load()
	publish()
	b.ReportAllocs()
	b.ResetTimer()
	start, n := cpuTime(), 0
	for ; n < b.N; n += int(round) {
		publish()
		want += round
		client.await(want)
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(n), "cpu-ns/op")
	client.await(want + round)
}

// bursts that a publisher is asked for at a time.
const bursts = 4

// publisher returns a function that has redis-cli run a script as often as bursts says, and
// does not wait for it.
func publisher(b *testing.B, addr, script string) (run func()) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("redis-cli", "-h", host, "-p", port)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	commands := bytes.Repeat(fmt.Appendf(nil, "EVAL %q 0\n", script), bursts)
	return func() {
		if _, err := in.Write(commands); err != nil {
			b.Fatal(err)
		}
	}
}

// subscriber is a client of a node on Redis that has subscribed to ch.
func subscriber(b *testing.B, cfg redis.Config) *sink {
	node, err := gyro.New(gyro.Config{Broker: newEngine(b, cfg).Broker(), Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{}, nil
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	if err := node.Run(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Shutdown(context.Background()) })
	s := &sink{changed: make(chan struct{}, 1)}
	peer, err := node.Accept(context.Background(), s, transport.Info{Name: "sink", Framer: new(lines)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { peer.Closed(nil) })
	peer.Receive([]byte(`{"id":1,"connect":{}}`))
	s.await(1)
	peer.Receive([]byte(`{"id":2,"subscribe":{"channel":"ch"}}`))
	s.await(2)
	return s
}

// cpuTime of this process in nanoseconds.
func cpuTime() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}
