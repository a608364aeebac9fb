//go:build linux

// Package goclient measures the client for Go beside centrifuge-go (make bench-client). The server is another process.
package goclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
)

const serving = "GOCLIENT_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serving) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var payload = []byte(`{"symbol":"XAUUSD","exchange":"OTC","currency":"USD","bid":4812.25,"ask":4812.75,"text":"` + strings.Repeat("x", 80) + `"}`)

// serve writes the address of a node, and publishes as often as each line of its input says.
func serve() error {
	node, err := gyro.New(gyro.Config{
		Logger:  slog.New(slog.DiscardHandler),
		Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 10, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{
			Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, Positioned: true}}, nil
			},
		},
	})
	if err != nil {
		return err
	}
	if err := node.Run(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, websocket.NewHandler(node, websocket.Config{})) }() //nolint:gosec // for this test alone
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n int
		if _, err := fmt.Sscan(in.Text(), &n); err != nil {
			return err
		}
		for range n {
			if _, err := node.Publish(context.Background(), "news", payload, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

type server struct {
	url string
	in  io.Writer
}

func start(b *testing.B) server {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serving+"=1", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() {
		must(b, in.Close())
		must(b, cmd.Wait())
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	return server{"ws://" + strings.TrimSpace(address), in}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (s server) publish(b *testing.B, n int) {
	b.Helper()
	_, err := fmt.Fprintln(s.in, n)
	must(b, err)
}

// follower connects a client that follows the channel, calls got for each publication, and returns its end. Without got,
// no publication is taken.
type follower func(b *testing.B, url string, e protocol.Encoding, got func(data []byte)) (end func())

var followers = []struct {
	name   string
	follow follower
}{{"gyro", ours}, {"centrifuge-go", theirs}}

func ours(b *testing.B, url string, e protocol.Encoding, got func([]byte)) func() {
	b.Helper()
	c, err := client.New(url, client.Options{Encoding: e})
	must(b, err)
	s, err := c.NewSubscription("news", nil)
	must(b, err)
	if got != nil {
		pubs := s.Publications(b.Context())
		go func() {
			for p := range pubs {
				got(p.Data)
			}
		}()
	}
	s.Subscribe()
	must(b, c.Connect(b.Context()))
	must(b, s.Ready(b.Context()))
	return c.Close
}

func theirs(b *testing.B, url string, e protocol.Encoding, got func([]byte)) func() {
	b.Helper()
	open := centrifuge.NewJsonClient
	if e == protocol.Protobuf {
		open = centrifuge.NewProtobufClient
	}
	c := open(url, centrifuge.Config{})
	s, err := c.NewSubscription("news")
	must(b, err)
	subscribed := make(chan struct{})
	s.OnSubscribed(func(centrifuge.SubscribedEvent) { close(subscribed) })
	if got != nil {
		s.OnPublication(func(e centrifuge.PublicationEvent) { got(e.Data) })
	}
	must(b, s.Subscribe())
	must(b, c.Connect())
	<-subscribed
	return c.Close
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// round bounds the publications on their way: the server keeps so many for a slow client.
const round = 1000

// BenchmarkReceive: CPU of a received publication, with reading it from the network.
func BenchmarkReceive(b *testing.B) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		for _, one := range followers {
			b.Run(fmt.Sprint(one.name, "/", e), func(b *testing.B) {
				s := start(b)
				all := make(chan struct{})
				n, want := 0, min(round, b.N) // the channels order what both goroutines do
				got := func(data []byte) {
					if len(data) != len(payload) {
						b.Errorf("%q", data)
					}
					n++
					if n == want {
						all <- struct{}{}
					}
				}
				end := one.follow(b, s.url, e, got)
				defer end()
				b.ResetTimer()
				before := cpu(b)
				for done := 0; done < b.N; {
					next := min(round, b.N-done)
					want = done + next
					s.publish(b, next)
					<-all
					done += next
				}
				b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/pub")
			})
		}
	}
}

const (
	connections = 10_000
	// together are opened at a time.
	together = 16
)

// settled is when nothing is left of making a connection: timers of commands are removed when they would have fired.
const settled = 6 * time.Second

// BenchmarkMemory: a connection that has subscribed, has got a publication, and waits, as heap and stacks in use, and as
// memory of the process.
func BenchmarkMemory(b *testing.B) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		for _, one := range followers {
			for _, reads := range []bool{false, true} {
				name := map[bool]string{false: "without iterator", true: "with iterator"}[reads]
				b.Run(fmt.Sprint(one.name, "/", e, "/", name), func(b *testing.B) {
					s := start(b)
					var seen atomic.Int64
					all := make(chan struct{})
					got := func([]byte) {
						if seen.Add(1) == connections {
							close(all)
						}
					}
					if !reads {
						got = nil
					}
					used, resident := memory(b)
					end := crowd(b, one.follow, s.url, e, got)
					s.publish(b, 1)
					if reads {
						<-all
					}
					time.Sleep(settled)
					nowUsed, nowResident := memory(b)
					b.ReportMetric(float64(nowUsed-used)/connections, "B/conn")
					b.ReportMetric(float64(nowResident-resident)/connections, "rss-B/conn")
					b.ReportMetric(0, "ns/op")
					end()
				})
			}
		}
	}
}

func crowd(b *testing.B, follow follower, url string, e protocol.Encoding, got func([]byte)) func() {
	b.Helper()
	ends := make([]func(), connections)
	slots := make(chan struct{}, together)
	var all sync.WaitGroup
	for i := range ends {
		slots <- struct{}{}
		all.Go(func() {
			ends[i] = follow(b, url, e, got)
			<-slots
		})
	}
	all.Wait()
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// memory returns heap and stacks after a collection, and the resident memory.
func memory(b *testing.B) (used, resident int64) {
	b.Helper()
	for range 3 { // also what pools keep
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	statm, err := os.ReadFile("/proc/self/statm")
	must(b, err)
	var size, pages int64
	_, err = fmt.Sscan(string(statm), &size, &pages)
	must(b, err)
	return int64(m.HeapAlloc + m.StackInuse), pages * int64(os.Getpagesize())
}
