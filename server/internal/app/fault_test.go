package app

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/server/internal/config"
)

// faultyKind is a kind of clients that the core has to end, and what the server may
// hold for each of them until then.
type faultyKind struct {
	name    string
	clients int
	edit    func(*config.Config) // sets what ends such clients, and keeps everything else from ending them before
	// come connects one; then is what they do when all are connected, in steps with calm held.
	come func(s *testServer) net.Conn
	then func(s *testServer, clients []net.Conn, calm sync.Locker)
	// goroutines and loops are the most bytes of heap for each, by driver; the
	// client's end, which is of this process too, is in them.
	goroutines, loops int64
	code              int
}

var faultyKinds = []faultyKind{
	{
		// The queue, of 64 KB; with the Close frame it goes behind the frame that was
		// begun, into a buffer that may have several times the size while it grows.
		name: "never read", clients: 20, goroutines: 192 << 10, loops: 192 << 10, code: 3008,
		edit: func(cfg *config.Config) { cfg.WebSocket.WriteTimeout = time.Minute },
		come: func(s *testServer) net.Conn {
			return s.faulty(`{"id":1,"connect":{}}` + "\n" + `{"id":2,"subscribe":{"channel":"flood:a"}}`)
		},
		then: func(s *testServer, clients []net.Conn, calm sync.Locker) {
			// Publish no faster than a client can read, and not while the heap is measured. Otherwise the
			// heap has publications that wait for their delivery, and garbage.
			reader := s.dial(nil)
			defer reader.Vanish()
			reader.Connect("")
			reader.Subscribe("flood:a", "")
			payload := []byte(`"` + strings.Repeat("x", 30_000) + `"`)
			for end := time.Now().Add(wait.Limit); disconnected(s.logs.String(), 3008) < len(clients) && time.Now().Before(end); {
				calm.Lock()
				_, err := s.app.Node().Publish(s.t.Context(), "flood:a", payload, nil)
				reader.Push()
				calm.Unlock()
				if err != nil {
					s.t.Error(err)
					return
				}
			}
		},
	},
	{
		// A goroutine that reads has a buffer of 16 KB.
		name: "trickle", clients: 100, goroutines: 24 << 10, loops: 8 << 10, code: 3502,
		edit: func(cfg *config.Config) { cfg.Client.StaleCloseDelay = 2 * time.Second },
		come: func(s *testServer) net.Conn { return s.faulty("") },
		then: func(s *testServer, clients []net.Conn, _ sync.Locker) {
			connect := frametest.Masked(frametest.Text(`{"id":1,"connect":{"name":"` + strings.Repeat("x", 100) + `"}}`))
			for i := 0; i < len(connect)-1 && disconnected(s.logs.String(), 3502) < len(clients); i++ {
				for _, nc := range clients {
					_, _ = nc.Write(connect[i : i+1])
				}
				time.Sleep(50 * time.Millisecond) // the rate of the bytes
			}
		},
	},
	{
		name: "half-open", clients: 100, goroutines: 24 << 10, loops: 8 << 10, code: 3012,
		edit: func(cfg *config.Config) { cfg.Client.PingInterval, cfg.Client.PongTimeout = 2*time.Second, time.Second },
		come: func(s *testServer) net.Conn { return s.faulty(`{"id":1,"connect":{}}`) },
	},
}

// TestFaultyClients: each kind gets its code on both drivers, holds no more memory
// than it may, and leaves nothing behind.
func TestFaultyClients(t *testing.T) {
	for _, goroutines := range []bool{false, true} {
		for _, k := range faultyKinds {
			t.Run(fmt.Sprintf("%s, goroutines=%v", k.name, goroutines), func(t *testing.T) {
				s := startServer(t, func(cfg *config.Config) {
					cfg.WebSocket.GoroutineDriver = goroutines
					cfg.Client.Insecure = true
					cfg.Client.QueueMaxSize = 64 << 10
					addNamespace(cfg, "flood", nil)
					k.edit(cfg)
				})
				bound := k.loops
				if goroutines {
					bound = k.goroutines
				}
				k.test(t, s, bound)
			})
		}
	}
}

func (k *faultyKind) test(t *testing.T, s *testServer, bound int64) {
	for range 2 * runtime.GOMAXPROCS(0) { // what is made with a loop's first client is there before
		s.faulty(`{"id":1,"connect":{}}`).Close()
	}
	s.awaitClients(0)
	before, heap := takeStock(t), liveHeap()
	var clients []net.Conn
	for range k.clients {
		clients = append(clients, k.come(s))
	}
	var calm sync.Mutex // held while the heap is measured
	most := make(chan int64)
	stop := make(chan struct{})
	go func() { // all the time, as nothing tells of the worst moment
		var worst int64
		for {
			calm.Lock()
			worst = max(worst, (liveHeap()-heap)/int64(k.clients))
			calm.Unlock()
			select {
			case <-stop:
				most <- worst
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	if k.then != nil {
		k.then(s, clients, &calm)
	}
	if !s.logs.Await(func(logs string) bool { return disconnected(logs, k.code) >= k.clients }) {
		t.Errorf("%d of %d clients ended with code %d:\n%s", disconnected(s.logs.String(), k.code), k.clients, k.code, s.logs)
	}
	close(stop)
	each := <-most
	t.Logf("%d clients: %d bytes each at most", k.clients, each)
	if each > bound && !raceEnabled {
		t.Errorf("%d bytes for each client, at most %d may be held", each, bound)
	}
	for _, nc := range clients {
		nc.Close()
	}
	s.awaitClients(0)
	if after := awaitStock(t, before); after.more(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// liveHeap is how much of the heap is in use, without what is garbage since.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // without what pools keep
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// disconnected is how many clients the server disconnected with a code.
func disconnected(logs string, code int) int {
	return strings.Count(logs, fmt.Sprintf(`"code":%d,`, code))
}

// faulty opens a connection with few buffers, and sends commands in one frame.
func (s *testServer) faulty(commands string) net.Conn {
	s.t.Helper()
	nc := must(net.Dial("tcp", s.app.Addr("external")))
	s.t.Cleanup(func() { nc.Close() })
	_ = nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = nc.SetDeadline(time.Now().Add(wait.Limit))
	in := bufio.NewReaderSize(nc, 16)
	_, _ = nc.Write([]byte(churnRequest))
	if !readUntil(in, "\r\n\r\n") {
		s.t.Fatal("handshake failed")
	}
	if commands != "" {
		_, _ = nc.Write(frametest.Masked(frametest.Text(commands)))
		if last := strings.Count(commands, `"id"`); !readUntil(in, fmt.Sprintf(`"id":%d`, last)) {
			s.t.Fatal("no answer")
		}
	}
	return nc
}
