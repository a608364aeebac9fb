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
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// pausedAt is the environment variable that makes TestPausedNode the node that is paused.
const pausedAt = "GYRO_TEST_PAUSED_AT"

// silence is the environment variable that has the CanaryTimeout of that node.
const silence = "GYRO_TEST_SILENCE"

// TestPausedNode stops the process of a node for much longer than CanaryTimeout, however short that is. What Redis has sent it
// meanwhile it reads when it goes on. A busy machine may hold up Redis for so long that the node is right to connect again, and
// loses messages: then the node gets more patience, and is stopped for longer.
func TestPausedNode(t *testing.T) {
	t.Parallel()
	if address := os.Getenv(pausedAt); address != "" {
		timeout, err := time.ParseDuration(os.Getenv(silence))
		if err != nil {
			t.Fatal(err)
		}
		beNode(t, address, timeout)
		return
	}
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, Logger: quiet}, newNote())
	for timeout := 300 * time.Millisecond; ; timeout *= 2 {
		missing := pauseNode(t, server, b, timeout)
		if missing == 0 {
			return
		}
		if t.Logf("with %v: %d messages are missing", timeout, missing); timeout > 4*time.Second {
			t.Fatal("what Redis has sent to a node that was stopped is lost")
		}
	}
}

// pauseNode stops a node with a CanaryTimeout, and returns how many messages it did not hear.
func pauseNode(t *testing.T, server *redistest.Server, b *redis.Broker, timeout time.Duration) (missing int) {
	t.Helper()
	node := exec.Command(os.Args[0], "-test.run=^TestPausedNode$", "-test.v=false")
	// On one processor, timers come before sockets.
	node.Env = append(os.Environ(), pausedAt+"="+server.Addr(), silence+"="+timeout.String(), "GOMAXPROCS=1")
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
	for round := range 3 { // the pause may begin at any moment between two canaries
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
		time.Sleep(3 * timeout)
		if err := node.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		end := fmt.Sprint("end ", round)
		wait.Until(t, "the end", func() bool {
			if err := b.PublishControl(t.Context(), "", []byte(end)); err != nil {
				t.Fatal(err)
			}
			return wait.Within(time.Second, func() bool {
				for len(lines) > 0 {
					heard[<-lines] = true
				}
				return heard[end]
			})
		})
		for i := range n {
			if !heard[fmt.Sprint("message ", i)] {
				missing++
			}
		}
	}
	return missing
}

// beNode tells on stdout what control messages it hears, until stdin is closed.
func beNode(t *testing.T, address string, timeout time.Duration) {
	b := newBroker(t, redis.Config{
		Shards: []redis.Shard{{Addresses: []string{address}}}, Logger: quiet, CanaryInterval: timeout / 3, CanaryTimeout: timeout,
	})
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
