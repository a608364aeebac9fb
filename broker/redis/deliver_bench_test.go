package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

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
// or in bursts.
func BenchmarkReceiveToClient(b *testing.B) {
	for _, burst := range []int{1, 10, 500} {
		b.Run(fmt.Sprint("burst=", burst), func(b *testing.B) { receiveToClient(b, burst) })
	}
}

func receiveToClient(b *testing.B, burst int) {
	server := redistest.Standalone(b, redistest.Options{})
	client := subscriber(b, redis.Config{Shards: []redis.Shard{standalone(server)}})
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	replies := bufio.NewReader(conn)
	data := []byte(`{"t":"message","d":"` + strings.Repeat("x", 106) + `"}`)
	message := fmt.Sprintf("\x22\x80\x01%s", data) // field 4 of 128 bytes
	// Redis publishes the burst by itself, at one command.
	loop := fmt.Sprintf("for i = 1, %d do redis.call('PUBLISH', 'centrifugo.client.ch', ARGV[1]) end", burst)
	request := fmt.Appendf(nil, "*4\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n$%d\r\n%s\r\n", len(loop), loop, len(message), message)
	answer := make([]byte, len("$-1\r\n"))
	client.size = len(`{"push":{"channel":"ch","pub":{"data":}}}`) + len(data) + 1
	round := func() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(replies, answer); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	start, n := cpuTime(), 0
	for want := client.messages.Load(); n < b.N; n += burst {
		round()
		want += int64(burst)
		client.await(want)
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(n), "cpu-ns/op")
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
	peer, err := node.Accept(context.Background(), s, transport.Info{Name: "sink", Framer: wstest.Framer(protocol.JSON)})
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
