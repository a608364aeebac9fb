package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gyrohq/gyro/client"
)

const maxLine = 64 << 20

// Publish publishes into a channel.
type Publish struct {
	Remote
	Channel string
	// Key, if set, is a key of a map, and payloads are its values. Remove takes none, and removes it.
	Key    string
	Remove bool
	Data   []byte
	In     io.Reader
	// Text makes a JSON string of each payload, which must be JSON otherwise.
	Text bool
	// AsClient publishes over a connection, without the options below.
	AsClient       bool
	SkipHistory    bool
	Delta          bool
	IdempotencyKey string
	Tags           map[string]string
}

type published struct {
	Channel string `json:"channel"`
	Offset  uint64 `json:"offset,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
}

// Run publishes until the first failure. Errors about lines have their number.
func (p *Publish) Run(ctx context.Context, out *Output) error {
	switch {
	case p.AsClient && (p.SkipHistory || p.Delta || p.IdempotencyKey != "" || len(p.Tags) > 0):
		return Usage("clients publish without options: leave them out, or publish over the API")
	case p.Remove && p.Key == "":
		return Usage("remove: which --key?")
	case p.Key != "" && p.SkipHistory, p.Remove && (p.Delta || len(p.Tags) > 0):
		return Usage("maps have no --skip-history, and a removal has no --delta and no --tag")
	}
	if p.Data != nil && !p.Remove {
		if _, err := p.payload(p.Data); err != nil {
			return UsageError{err}
		}
	}
	send, closes, err := p.sender(ctx)
	if err != nil {
		return err
	}
	defer closes()
	publish := func(payload json.RawMessage) error {
		res, err := send(payload)
		if err != nil || !out.JSON {
			return err
		}
		res.Channel = p.Channel
		return out.object(res)
	}
	one := func(data []byte) error {
		payload, err := p.payload(data)
		if err != nil {
			return err
		}
		return publish(payload)
	}
	switch {
	case p.Remove:
		return publish(nil)
	case p.Data != nil:
		return one(p.Data)
	}
	lines := bufio.NewScanner(p.In)
	lines.Buffer(nil, maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 && !p.Text {
			continue
		}
		if err := one(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}
	return nil
}

func (p *Publish) payload(data []byte) (json.RawMessage, error) { return payload(data, p.Text) }

func payload(data []byte, text bool) (json.RawMessage, error) {
	switch {
	case text:
		return json.Marshal(string(data))
	case !json.Valid(data):
		return nil, errors.New("the payload is not JSON: quote it, or let --text make a JSON string of it")
	}
	return bytes.Clone(data), nil
}

func (p *Publish) sender(ctx context.Context) (func(json.RawMessage) (published, error), func(), error) {
	if p.AsClient {
		c, err := open(ctx, p.Remote)
		if err != nil {
			return nil, nil, err
		}
		return func(data json.RawMessage) (published, error) { return published{}, c.why(p.over(c, data)) }, c.close, nil
	}
	api, err := p.Caller()
	if err != nil {
		return nil, nil, err
	}
	return func(data json.RawMessage) (published, error) {
		var res published
		err := api.Call(ctx, p.method(), struct {
			Channel        string            `json:"channel"`
			Key            string            `json:"key,omitempty"`
			Data           json.RawMessage   `json:"data,omitempty"`
			SkipHistory    bool              `json:"skip_history,omitempty"`
			Delta          bool              `json:"delta,omitempty"`
			IdempotencyKey string            `json:"idempotency_key,omitempty"`
			Tags           map[string]string `json:"tags,omitempty"`
		}{p.Channel, p.Key, data, p.SkipHistory, p.Delta, p.IdempotencyKey, p.Tags}, &res)
		return res, err
	}, func() {}, nil
}

func (p *Publish) method() string {
	switch {
	case p.Remove:
		return "map_remove"
	case p.Key != "":
		return "map_publish"
	}
	return "publish"
}

func (p *Publish) over(c *connection, data []byte) error {
	switch {
	case p.Remove:
		return c.DeleteKey(c.ctx, p.Channel, p.Key)
	case p.Key != "":
		return c.SetKey(c.ctx, p.Channel, p.Key, data)
	}
	return c.Publish(c.ctx, p.Channel, data)
}

// connection does not connect again: whether a command was done would not be known.
type connection struct {
	*client.Client
	ctx context.Context // ends with the connection
	end context.CancelCauseFunc
}

const unbounded = 24 * time.Hour

func open(ctx context.Context, r Remote) (*connection, error) {
	one, err := r.client(unbounded)
	if err != nil {
		return nil, err
	}
	c := &connection{Client: one}
	c.ctx, c.end = context.WithCancelCause(ctx)
	late := time.AfterFunc(connectTimeout, func() { c.end(fmt.Errorf("%s: no connection within %s", r.URL, connectTimeout)) })
	defer late.Stop()
	up := make(chan struct{})
	go func() {
		c.end(r.follow(c.ctx, one, nil, func(e client.Event) error {
			switch e := e.(type) {
			case client.ConnectedEvent:
				close(up)
			case client.ConnectingEvent:
				if e.Reason != client.ConnectCalled {
					return fmt.Errorf("the connection is lost: %w", lost(e.Reason))
				}
			}
			return nil
		}))
	}()
	select {
	case <-up:
		return c, nil
	case <-c.ctx.Done():
		c.Close()
		return nil, context.Cause(c.ctx)
	}
}

// why returns the reason for the end of the connection, if it has ended before the reply.
func (c *connection) why(err error) error {
	if errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrDisconnected) {
		<-c.ctx.Done()
		return context.Cause(c.ctx)
	}
	return err
}

func (c *connection) close() {
	c.end(nil)
	c.Close()
}
