package conn

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// primary asks the Sentinels, one after another, for the address of the primary.
func (c *Client) primary(ctx context.Context) (string, error) {
	var failures []error
	first := int(c.next.Load()) // the one that knew it last
	for i := range c.opts.Addresses {
		sentinel := c.opts.Addresses[(first+i)%len(c.opts.Addresses)]
		address, err := c.askSentinel(ctx, sentinel)
		if err == nil {
			c.next.Store(uint32((first + i) % len(c.opts.Addresses)))
			return address, nil
		}
		failures = append(failures, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", errors.Join(failures...)
}

// askSentinel asks one of them. It gets a part of the time, so that one which does
// not answer leaves time for the others.
func (c *Client) askSentinel(ctx context.Context, sentinel string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.askTimeout())
	defer cancel()
	q, err := c.loginSentinel(ctx, sentinel)
	if err != nil {
		return "", err
	}
	defer q.conn.Close()
	stop := context.AfterFunc(ctx, func() { q.conn.Close() })
	defer stop()
	reply, err := q.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", c.opts.SentinelMaster)
	if err != nil {
		return "", err
	}
	if len(reply) != 2 {
		return "", fmt.Errorf("knows no primary named %q", c.opts.SentinelMaster)
	}
	return net.JoinHostPort(reply[0], reply[1]), nil
}

// askTimeout bounds the question to one of several servers.
func (c *Client) askTimeout() time.Duration {
	return min(c.opts.ConnectTimeout, c.opts.IOTimeout/4)
}

// loginSentinel connects to one of them.
func (c *Client) loginSentinel(ctx context.Context, sentinel string) (*query, error) {
	o := &c.opts
	return c.login(ctx, sentinel, o.SentinelTLS, o.SentinelUser, o.SentinelPassword, o.SentinelClientName)
}

// login connects to a server for a few questions. They have to be answered before the
// deadline of ctx, too.
func (c *Client) login(ctx context.Context, address string, config *tls.Config, user, password, name string) (*query, error) {
	raw, err := dial(ctx, address, c.dialer(), config)
	if err != nil {
		return nil, err
	}
	q := &query{raw, bufio.NewReader(raw)}
	if deadline, ok := ctx.Deadline(); ok {
		err = raw.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	if err == nil && password != "" {
		err = q.auth(user, password)
	}
	if err == nil && name != "" {
		_, err = q.do("CLIENT", "SETNAME", name)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return q, nil
}

// watchSentinel drops the connections to a server that the Sentinels have replaced:
// a demoted primary may keep them, and take writes that are lost. It looks when a
// Sentinel says so, when a server refuses writes, and from time to time.
func (c *Client) watchSentinel() {
	ticker := time.NewTicker(topologyInterval)
	defer ticker.Stop()
	var silent time.Time // since when none answers
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		case <-c.suspect:
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.opts.IOTimeout)
		address, err := c.primary(ctx)
		cancel()
		if err != nil {
			if silent.IsZero() {
				silent = time.Now()
				c.opts.Logger.Warn("no Sentinel answers", "part", c.opts.Name, "error", err)
			}
			continue
		}
		if !silent.IsZero() {
			c.opts.Logger.Info("a Sentinel answers again", "part", c.opts.Name, "failed_at", silent, "after", time.Since(silent).Round(time.Millisecond).String())
			silent = time.Time{}
		}
		if c.dropOthers(address) {
			c.opts.Logger.Info("the primary was replaced", "part", c.opts.Name, "primary", address)
		}
	}
}

// suspectPrimary has watchSentinel look soon.
func (c *Client) suspectPrimary() {
	select {
	case c.suspect <- struct{}{}:
	default:
	}
}

// relistenInterval is how long a Sentinel that ended the connection, or none, is
// left alone.
const relistenInterval = time.Second

// listenSentinel waits for news of the primary at one Sentinel after another.
func (c *Client) listenSentinel() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-stop:
		}
	}()
	for i := 0; ctx.Err() == nil; i++ {
		c.hearSentinel(ctx, c.opts.Addresses[i%len(c.opts.Addresses)]) // what it misses, watchSentinel finds
		select {
		case <-ctx.Done():
		case <-time.After(relistenInterval):
		}
	}
}

// hearSentinel listens to one Sentinel until the connection or ctx ends.
func (c *Client) hearSentinel(ctx context.Context, sentinel string) {
	login, cancel := context.WithTimeout(ctx, c.askTimeout())
	defer cancel()
	q, err := c.loginSentinel(login, sentinel)
	if err != nil {
		return
	}
	defer q.conn.Close()
	stop := context.AfterFunc(ctx, func() { q.conn.Close() })
	defer stop()
	if _, err := q.do("SUBSCRIBE", "+switch-master"); err != nil || q.conn.SetDeadline(time.Time{}) != nil {
		return
	}
	for err == nil {
		c.suspectPrimary() // also for what happened before the subscription
		_, err = q.reply()
	}
}

// query sends commands one at a time, which is enough for the few that Sentinels get.
type query struct {
	conn net.Conn
	from *bufio.Reader
}

// refusal is an error that a server answered.
type refusal string

func (r refusal) Error() string { return string(r) }

// maxLine and maxElements bound what a Sentinel may answer.
const (
	maxLine     = 64 << 10
	maxElements = 64
)

// do returns the reply as strings: one, or the elements of a flat array.
func (q *query) do(args ...string) ([]string, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := q.conn.Write(request); err != nil {
		return nil, err
	}
	return q.reply()
}

// auth authenticates; user may be empty.
func (q *query) auth(user, password string) error {
	args := []string{"AUTH", password}
	if user != "" {
		args = []string{"AUTH", user, password}
	}
	_, err := q.do(args...)
	return err
}

// reply reads what a command is answered, or a message.
func (q *query) reply() ([]string, error) {
	kind, rest, err := q.line()
	if err != nil || kind != '*' {
		text, err := q.text(kind, rest, err)
		return []string{text}, err
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n > maxElements {
		return nil, errors.New("an answer that is none")
	}
	var elements []string
	for range n { // -1 is a null array
		kind, rest, err := q.line()
		text, err := q.text(kind, rest, err)
		if err != nil {
			return nil, err
		}
		elements = append(elements, text)
	}
	return elements, nil
}

func (q *query) line() (kind byte, rest string, err error) {
	line, err := q.from.ReadSlice('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 {
		return 0, "", errors.New("an empty answer")
	}
	return line[0], strings.TrimRight(string(line[1:]), "\r\n"), nil
}

// text reads the rest of a reply that is no array.
func (q *query) text(kind byte, rest string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", refusal(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n > maxLine {
			return "", errors.New("an answer that is none")
		}
		if n < 0 {
			return "", nil
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(q.from, text)
		return string(text[:n]), err
	default:
		return "", fmt.Errorf("an answer of the unknown kind %q", kind)
	}
}
