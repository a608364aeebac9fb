package app

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/server/internal/config"
)

var churn = flag.Duration("churn", 0, "how long TestChurn goes on; 0 for a few hundred clients")

// TestChurn: clients come, subscribe, publish, misbehave in every way and vanish,
// and all the time one that behaves gets what is published, in order. In the end
// the server holds the descriptors, goroutines and clients that it began with.
func TestChurn(t *testing.T) {
	for _, goroutines := range []bool{false, true} {
		t.Run(fmt.Sprintf("goroutines=%v", goroutines), func(t *testing.T) {
			s := startServer(t, func(cfg *config.Config) {
				cfg.WebSocket.GoroutineDriver = goroutines
				cfg.Client.Insecure = true
				cfg.Client.StaleCloseDelay = 10 * time.Second
				addNamespace(cfg, "churn", func(o *config.ChannelOptions) {
					o.HistorySize, o.HistoryTTL, o.ForceRecovery, o.Presence = 10, time.Minute, true, true
				})
			})
			if *churn > 0 {
				s.logs.Discard() // so that the log does not count as heap
			}
			// What is made with the first clients is there before.
			r := rand.New(rand.NewPCG(0, 0))
			for n := range 30 {
				s.misbehave(r, n)
			}
			s.awaitClients(0)
			before := takeStock(t)
			s.churn(*churn)
			s.awaitClients(0)
			after := awaitStock(t, before)
			t.Logf("before %+v, after %+v", before, after)
			if after.more(before) {
				buf := make([]byte, 1<<20)
				t.Errorf("before %+v, after %+v\n%s", before, after, buf[:runtime.Stack(buf, true)])
			}
			if *churn > 0 && after.heap > before.heap+before.heap/4+4<<20 {
				t.Errorf("%d bytes of heap, %d before", after.heap, before.heap)
			}
		})
	}
}

// churn lets workers misbehave for d, or for a few hundred clients, while a witness
// watches.
func (s *testServer) churn(d time.Duration) {
	const workers, clients = 8, 25
	witness := s.connect("witness")
	witness.Subscribe("churn:witness", "")
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for n := 0; n < clients || time.Now().Before(end); n++ {
				s.misbehave(r, n)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for n := 1; ; n++ {
		s.api("publish", fmt.Sprintf(`{"channel":"churn:witness","data":%d}`, n))
		if got := string(witness.Pub().Data); got != fmt.Sprint(n) {
			s.t.Errorf("the witness got %s, want %d", got, n)
		}
		select {
		case <-done:
			witness.Vanish()
			return
		default:
		}
	}
}

// misbehave is the life of one client.
func (s *testServer) misbehave(r *rand.Rand, n int) {
	nc, err := net.Dial("tcp", s.app.Addr("external"))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(wait.Limit))
	request := []byte(churnRequest)
	if r.IntN(10) == 0 { // half a handshake
		_, _ = nc.Write(request[:r.IntN(len(request))])
		return
	}
	in := bufio.NewReader(nc)
	_, _ = nc.Write(request)
	if !readUntil(in, "HTTP/1.1 101 ") || !readUntil(in, "\r\n\r\n") {
		s.t.Error("handshake failed")
		return
	}
	ch := fmt.Sprintf("churn:%d", r.IntN(20))
	commands := frametest.Masked(frametest.Text(`{"id":1,"connect":{}}` + "\n" + `{"id":2,"subscribe":{"channel":"` + ch + `"}}`))
	if r.IntN(4) == 0 {
		for _, b := range commands { // byte by byte
			_, _ = nc.Write([]byte{b})
		}
	} else {
		_, _ = nc.Write(commands)
	}
	if r.IntN(5) > 0 && !readUntil(in, `"id":2`) {
		s.t.Error("no answer to the subscribe")
	}
	switch r.IntN(6) {
	case 0:
		_ = nc.(*net.TCPConn).SetLinger(0) // a reset
	case 1:
		_, _ = nc.Write(frametest.Masked(frametest.Close(1000, "")))
		_, _ = io.Copy(io.Discard, in)
	case 2:
		garbage := make([]byte, 1+r.IntN(200))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		_, _ = nc.Write(garbage)
	case 3: // never reads, while its channel is flooded
		for range 20 {
			status, answer := s.post("/api/publish", `{"channel":"`+ch+`","data":"`+strings.Repeat("x", 10_000)+`"}`)
			if status != http.StatusOK || strings.Contains(answer, `"error"`) {
				s.t.Errorf("publish: %d %s", status, answer)
			}
		}
	case 4:
		_ = nc.(*net.TCPConn).CloseWrite() // half open
		_, _ = io.Copy(io.Discard, in)
	case 5:
		_, _ = nc.Write(frametest.Masked(frametest.Text(`{"id":3,"publish":{"channel":"` + ch + `","data":` + fmt.Sprint(n) + `}}`)))
	}
}

const churnRequest = "GET /connection/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// readUntil reads until text was there.
func readUntil(in *bufio.Reader, text string) bool {
	var got bytes.Buffer
	for !strings.Contains(got.String(), text) {
		b, err := in.ReadByte()
		if err != nil {
			return false
		}
		got.WriteByte(b)
	}
	return true
}

// awaitClients waits until the node has n clients, and the transports have let go
// of the others. Nothing tells of it, so it has to look again and again.
func (s *testServer) awaitClients(n int) {
	s.t.Helper()
	wait.Success(s.t, fmt.Sprintf("%d clients are left", n), func() error {
		http.DefaultClient.CloseIdleConnections()
		if clients, conns := s.app.node.NumClients(), established(s.app.Addr("external")); clients != n || conns != 0 {
			return fmt.Errorf("%d clients, %d connections", clients, conns)
		}
		return nil
	})
}

// established counts the server's ends of connections that have an owner.
func established(addr string) (n int) {
	_, port, _ := net.SplitHostPort(addr)
	var p int
	_, _ = fmt.Sscan(port, &p)
	local := fmt.Sprintf("0100007F:%04X", p)
	table, _ := os.ReadFile("/proc/self/net/tcp")
	for _, line := range strings.Split(string(table), "\n") {
		f := strings.Fields(line)
		const listen = "0A"
		if len(f) > 9 && f[1] == local && f[3] != listen && f[9] != "0" { // inode 0: nobody's
			n++
		}
	}
	return n
}

// stock is what a process holds.
type stock struct {
	descriptors, goroutines int
	heap                    uint64
}

// more tells whether s holds more than before. Goroutines of net/http come and go.
func (s stock) more(before stock) bool {
	return s.descriptors > before.descriptors || s.goroutines > before.goroutines+5
}

// awaitStock waits until the process holds no more descriptors and goroutines than before, for wait.Limit at most, and returns the
// counts. It asks again and again, because nothing tells that a goroutine has ended.
func awaitStock(t *testing.T, before stock) (s stock) {
	t.Helper()
	wait.Within(wait.Limit, func() bool {
		s = takeStock(t)
		return !s.more(before)
	})
	return s
}

func takeStock(t *testing.T) stock {
	t.Helper()
	for range 3 {
		runtime.GC()
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return stock{len(fds), runtime.NumGoroutine(), m.HeapAlloc}
}
