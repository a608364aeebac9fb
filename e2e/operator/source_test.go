//go:build linux

package operator

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/wire"
)

// source is an EventSource over HTTP/2, as in a page: it comes back after the server's time, with the last id.
type source struct {
	account.Absence
	stand   *stand
	channel string
	book    *account.Book
	fail    func(string)
	address string
	http    *http.Client
	retry   time.Duration
	last    string // id
	open    atomic.Bool
	cancel  context.CancelFunc
	ended   chan struct{}
}

func newSource(s *stand, channel, token string, book *account.Book, fail func(string)) (*source, error) {
	request, err := json.Marshal(object{"token": token, "subs": object{channel: object{}}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	c := &source{
		stand: s, channel: channel, book: book, fail: fail, cancel: cancel, ended: make(chan struct{}),
		address: "https://rt.example.com/connection/uni_sse?cf_connect=" + url.QueryEscape(string(request)), retry: time.Second,
		http: &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // no authority has signed it
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, s.public)
			},
		}},
	}
	go c.run(ctx)
	return c, nil
}

func (c *source) Close() {
	c.cancel()
	<-c.ended
	c.http.CloseIdleConnections()
}

func (c *source) Subscribed() bool { return c.open.Load() }

func (c *source) Describe() string {
	return fmt.Sprintf("an EventSource, which is open: %v", c.open.Load())
}

func (c *source) run(ctx context.Context) {
	defer close(c.ended)
	for ctx.Err() == nil {
		err := c.read(ctx)
		c.open.Store(false)
		if errors.Is(err, errOver) {
			c.fail(err.Error())
			return
		}
		c.Left(time.Now())
		wire.Sleep(ctx, c.retry)
	}
}

var errOver = errors.New("the EventSource is over")

// silence is the longest time without an event; the server pings every 25 s. A browser would wait for ever.
const silence = 40 * time.Second

func (c *source) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address, http.NoBody)
	if err != nil {
		return err
	}
	if c.last != "" {
		req.Header.Set("Last-Event-ID", c.last)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		return fmt.Errorf("%s %s", resp.Proto, resp.Status) // a page makes another EventSource
	}
	var data, id string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); quiet.Reset(silence) {
		name, value, _ := strings.Cut(strings.TrimSuffix(lines.Text(), "\r"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil {
				c.retry = time.Duration(ms) * time.Millisecond
			}
		case "id":
			id = value
		case "data":
			data += value
		case "":
			if id != "" {
				c.last = id
			}
			if err := c.event(data); err != nil {
				return err
			}
			data = ""
		}
	}
	return nil
}

func (c *source) event(data string) error {
	if data == "" || data == "{}" {
		return nil
	}
	type publication struct{ Data account.Payload }
	var push struct {
		Connect *struct {
			Subs map[string]struct {
				Recovered     bool
				WasRecovering bool `json:"was_recovering"`
				Publications  []publication
			}
		}
		Pub        *publication
		Disconnect *struct {
			Code   int
			Reason string
		}
	}
	if err := json.Unmarshal([]byte(data), &push); err != nil {
		return fmt.Errorf("%w: %w in %s", errOver, err, data)
	}
	switch {
	case push.Connect != nil:
		sub, ok := push.Connect.Subs[c.channel]
		if !ok {
			return fmt.Errorf("%w: no subscription in %s", errOver, data)
		}
		if sub.WasRecovering && !sub.Recovered {
			c.book.WasTold()
		}
		for _, p := range sub.Publications {
			c.book.Receive(p.Data.N)
		}
		c.Returned(time.Now())
		c.open.Store(true)
	case push.Pub != nil:
		c.book.Receive(push.Pub.Data.N)
	case push.Disconnect != nil:
		if code := push.Disconnect.Code; code >= 3500 && code < 4000 || code >= 4500 {
			return fmt.Errorf("%w: %d %s", errOver, code, push.Disconnect.Reason)
		}
	}
	return nil
}
