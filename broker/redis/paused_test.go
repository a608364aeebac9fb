//go:build unix

package redis_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

// pausedAt is the environment variable that makes TestPausedNode the node that is paused.
const pausedAt = "GYRO_TEST_PAUSED_AT"

// paused is the configuration of both nodes. The one that is paused must not take that
// for silence of the server, however little silence it stands.
func paused(address string) redis.Config {
	return redis.Config{
		Shards: []redis.Shard{{Addresses: []string{address}}}, Logger: quiet,
		CanaryInterval: 100 * time.Millisecond, CanaryTimeout: 300 * time.Millisecond,
	}
}

// TestPausedNode stops the process of a node for much longer than CanaryTimeout. What
// Redis has sent it meanwhile it reads when it goes on.
func TestPausedNode(t *testing.T) {
	if address := os.Getenv(pausedAt); address != "" {
		beNode(t, address)
		return
	}
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, paused(server.Addr()), newNote())
	node := exec.Command(os.Args[0], "-test.run=^TestPausedNode$", "-test.v=false")
	// On one processor, timers come before sockets.
	node.Env = append(os.Environ(), pausedAt+"="+server.Addr(), "GOMAXPROCS=1")
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		_ = node.Wait() // what matters it has said
	}()
	lines := make(chan string, 1000)
	go func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			lines <- s.Text()
		}
	}()
	if got := receive(t, lines); got != "runs" {
		t.Fatal(got)
	}
	for range 3 { // the pause may begin at any moment between two canaries
		if err := node.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		heard := make(map[string]bool)
		const n = 50
		for i := range n {
			if err := b.PublishControl(t.Context(), "", fmt.Append(nil, "message ", i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // what is tested is this time
		if err := node.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for range n {
			heard[receive(t, lines)] = true
		}
		if len(heard) != n {
			t.Fatalf("heard %d messages of %d: %v", len(heard), n, heard)
		}
	}
}

// beNode tells on stdout what control messages it hears, until stdin is closed.
func beNode(t *testing.T, address string) {
	b := newBroker(t, paused(address))
	if err := b.RunControl("paused", func(data []byte) { fmt.Fprintf(os.Stdout, "%s\n", data) }); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(newNote()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("runs")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Error(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
