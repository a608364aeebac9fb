package client

import (
	"context"
	"errors"
	"time"
)

var unauthorized = ending{reason: Unauthorized, last: true, politely: true}

// attempt connects, and returns when the connection has ended.
func (c *Client) attempt(t *attempts) {
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	if t.over {
		c.mu.Unlock()
		cancel()
		return
	}
	t.cancel = cancel
	c.next = time.Time{}
	select {
	case <-t.kick: // it asked for this attempt
	default:
	}
	c.mu.Unlock()
	token, end := c.getToken(ctx)
	var data []byte
	if end == nil {
		data, end = c.getData(ctx)
	}
	var conn Conn
	trying := end == nil
	if trying {
		conn, end = c.open(ctx)
	}
	cancel()
	c.mu.Lock()
	t.cancel = nil
	if t.over {
		c.mu.Unlock()
		if conn != nil {
			conn.Cut()
		}
		return
	}
	c.trying = trying
	if end != nil {
		c.gone(*end)
		c.mu.Unlock()
		return
	}
	l := &link{Client: c, conn: conn, heard: c.now()}
	c.link = l
	hello := c.request(token, data)
	if l.compressible() {
		c.books.Offer(hello, c.options.Profile)
	}
	l.greet(hello)
	c.mu.Unlock()
	err := conn.Read(l.receive)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.dropped {
		l.ended(err)
	}
}

// getToken returns the token, or why there is none.
func (c *Client) getToken(ctx context.Context) (string, *ending) {
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	if token != "" || c.options.GetToken == nil {
		return token, nil
	}
	token, err := c.options.GetToken(ctx)
	switch {
	case denied(token, err):
		return "", &unauthorized
	case err != nil:
		return "", &ending{failure: *errToken.of(err), cause: err}
	}
	c.mu.Lock()
	c.token = token
	c.mu.Unlock()
	return token, nil
}

// denied reports whether a callback says that the user may not.
func denied(token string, err error) bool {
	return err == nil && token == "" || errors.Is(err, ErrUnauthorized)
}

func (c *Client) getData(ctx context.Context) ([]byte, *ending) {
	if c.options.GetData == nil {
		return c.options.Data, nil
	}
	data, err := c.options.GetData(ctx)
	if err != nil {
		return nil, &ending{failure: *errData.of(err), cause: err}
	}
	return data, nil
}

func (c *Client) open(ctx context.Context) (Conn, *ending) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, ErrTimeout)
	defer cancel()
	conn, err := c.dialer.Dial(ctx)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(context.Cause(ctx), ErrTimeout):
		return nil, &ending{failure: *ErrTimeout, cause: err}
	}
	return nil, &ending{cause: err}
}
