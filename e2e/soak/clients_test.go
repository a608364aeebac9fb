package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

type follower struct {
	mu    sync.Mutex
	last  int64
	wrong []string
}

func (f *follower) take(n int64, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n != f.last+1 && len(f.wrong) < 5 {
		f.wrong = append(f.wrong, fmt.Sprintf("%s: number %d came behind %d", what, n, f.last))
	}
	f.last = n
}

func (f *follower) state() (last int64, wrong []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.wrong
}

type crowd struct {
	ctx        context.Context
	task       task
	clients    []*client.Client
	followers  []*follower
	work       sync.WaitGroup
	mu         sync.Mutex
	reconnects int
	errors     []string
}

func run(text string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &crowd{ctx: ctx}
	if err := json.Unmarshal([]byte(text), &c.task); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	idle := runtime.NumGoroutine()
	for i := range c.task.Clients {
		if err := c.add(i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		_ = out.Encode(c.answer(lines.Text())) // who asked notices that it failed
	}
	for _, one := range c.clients {
		one.Close()
	}
	cancel()
	c.work.Wait()
	http.DefaultClient.CloseIdleConnections()
	for end := time.Now().Add(wait.Limit); runtime.NumGoroutine() > idle+2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<16)
			fmt.Fprintf(os.Stderr, "%d goroutines are left of closed clients\n%s\n", runtime.NumGoroutine()-idle, stacks[:runtime.Stack(stacks, true)])
			return 1
		}
	}
	return 0
}

func (c *crowd) answer(line string) (a answer) {
	if text, ok := strings.CutPrefix(line, "reached "); ok {
		n, _ := strconv.ParseInt(text, 10, 64) // 0 is reached
		return c.reached(n)
	}
	runtime.GC()
	runtime.GC() // the first one may only have begun what the finalizers of the one before left
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return answer{Heap: int(m.HeapAlloc), Tasks: runtime.NumGoroutine()}
}

func (c *crowd) reached(n int64) (a answer) {
	end := time.Now().Add(time.Minute)
	for _, f := range c.followers {
		for last, _ := f.state(); last < n && time.Now().Before(end); last, _ = f.state() {
			time.Sleep(20 * time.Millisecond)
		}
	}
	for i, f := range c.followers {
		last, wrong := f.state()
		a.Received += int(last)
		a.Wrong = append(a.Wrong, wrong...)
		if last < n {
			a.Wrong = append(a.Wrong, fmt.Sprintf("client %d, %s: %d came, %d are to", i/len(channels), c.task.Channels[i%len(c.task.Channels)], last, n))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.Reconnects, a.Wrong = c.reconnects, append(a.Wrong, c.errors...)
	a.Wrong = a.Wrong[:min(len(a.Wrong), 20)]
	return a
}

func (c *crowd) failed(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

func (c *crowd) add(i int) error {
	encoding := protocol.JSON
	if i%2 == 1 {
		encoding = protocol.Protobuf
	}
	endpoint := c.task.Endpoints[i%len(c.task.Endpoints)]
	one, err := client.New("ws"+strings.TrimPrefix(endpoint, "http")+"/connection/websocket", client.Options{
		Encoding: encoding, MinDelay: 50 * time.Millisecond, MaxDelay: 500 * time.Millisecond, PingWait: 2 * time.Second,
		GetToken: func(ctx context.Context) (string, error) { return c.token(ctx, i) },
	})
	if err != nil {
		return err
	}
	c.clients = append(c.clients, one)
	events := one.Events(c.ctx)
	c.work.Go(func() {
		for e := range events {
			switch e := e.(type) {
			case client.ConnectingEvent:
				c.mu.Lock()
				c.reconnects++
				c.mu.Unlock()
			case client.DisconnectedEvent:
				if e.Reason.Code != 0 {
					c.failed("client %d was disconnected: %v", i, e.Reason)
				}
			}
		}
	})
	for _, channel := range c.task.Channels {
		if err := c.follow(one, i, channel); err != nil {
			return err
		}
	}
	return one.Connect(c.ctx)
}

func (c *crowd) token(ctx context.Context, i int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.task.Token+strconv.Itoa(i), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func (c *crowd) follow(one *client.Client, i int, channel string) error {
	var o client.SubscribeOptions
	if strings.HasPrefix(channel, "delta:") {
		o.Delta = true
	}
	o.Since = &client.StreamPosition{}
	sub, err := one.NewSubscription(channel, &o)
	if err != nil {
		return err
	}
	f := new(follower)
	c.followers = append(c.followers, f)
	publications := sub.Publications(c.ctx)
	c.work.Go(func() {
		for p, err := range publications {
			var gap *client.GapError
			if errors.As(err, &gap) {
				c.failed("client %d: %v", i, gap)
				continue
			}
			n, wrong := strconv.ParseInt(string(p.Data), 10, 64)
			if err = errors.Join(err, wrong); err != nil {
				c.failed("client %d, %s: %v", i, channel, err)
				return
			}
			f.take(n, fmt.Sprintf("client %d, %s", i, channel))
		}
	})
	sub.Subscribe()
	return nil
}
