package conn

import (
	"bufio"
	"context"
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
	limit := time.Now().Add(min(c.opts.ConnectTimeout, c.opts.IOTimeout/4))
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	raw, err := dial(ctx, sentinel, c.dialer(), c.opts.SentinelTLS)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	q := query{raw, bufio.NewReader(raw)}
	if c.opts.SentinelPassword != "" {
		auth := []string{"AUTH", c.opts.SentinelPassword}
		if c.opts.SentinelUser != "" {
			auth = []string{"AUTH", c.opts.SentinelUser, c.opts.SentinelPassword}
		}
		if _, err := q.do(auth...); err != nil {
			return "", err
		}
	}
	if c.opts.SentinelClientName != "" {
		if _, err := q.do("CLIENT", "SETNAME", c.opts.SentinelClientName); err != nil {
			return "", err
		}
	}
	reply, err := q.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", c.opts.SentinelMaster)
	if err != nil {
		return "", err
	}
	if len(reply) != 2 {
		return "", fmt.Errorf("knows no primary named %q", c.opts.SentinelMaster)
	}
	return net.JoinHostPort(reply[0], reply[1]), nil
}

// watchSentinel drops the connection to a server that the Sentinels have replaced:
// a demoted primary may keep its connections.
func (c *Client) watchSentinel() {
	ticker := time.NewTicker(topologyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.opts.IOTimeout)
		address, err := c.primary(ctx)
		cancel()
		if err != nil {
			c.opts.Logger.Warn("no Sentinel answers", "part", c.opts.Name, "error", err)
			continue
		}
		c.mu.Lock()
		replaced := c.current != nil && c.current.address != address
		c.mu.Unlock()
		if replaced {
			c.opts.Logger.Info("the primary was replaced", "part", c.opts.Name, "primary", address)
			c.drop()
		}
	}
}

// query sends commands one at a time: what Sentinels are asked needs no more.
type query struct {
	to   io.Writer
	from *bufio.Reader
}

// maxLine and maxElements bound what a Sentinel may answer.
const (
	maxLine     = 64 << 10
	maxElements = 64
)

// do returns the reply as strings: one, or the elements of a flat array.
func (q query) do(args ...string) ([]string, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := q.to.Write(request); err != nil {
		return nil, err
	}
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

func (q query) line() (kind byte, rest string, err error) {
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
func (q query) text(kind byte, rest string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
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
