package mobile

import (
	"errors"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/outbox"
)

// OutboxListener hears how entries of an outbox ended.
type OutboxListener interface {
	// OnOutcome has the answer to a call, or the code and message of an error; code is 0 without one, less than 0 if the
	// error has none. It must not close the outbox.
	OnOutcome(key string, result []byte, code int, message string)
	// WithKey returns data with the idempotency key of an entry in it, or data alone.
	WithKey(key string, data []byte) []byte
}

// Outbox keeps publications and calls in a file, and sends them in their order when it can.
type Outbox struct {
	box  *outbox.Outbox
	file *outbox.File
}

// NewOutbox returns the outbox of a client. It begins with the entries that the file has.
func NewOutbox(c *Client, path string, l OutboxListener) (*Outbox, error) {
	if l == nil {
		return nil, errors.New("mobile: NewOutbox needs a listener")
	}
	file, err := outbox.OpenFile(path)
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(c.c, outbox.Options{
		Store:   file,
		WithKey: func(e outbox.Entry) []byte { return l.WithKey(e.Key, e.Data) },
		Outcome: func(o outbox.Outcome) {
			var e *client.Error
			switch {
			case o.Err == nil:
				l.OnOutcome(o.Entry.Key, o.Result, 0, "")
			case errors.As(o.Err, &e):
				l.OnOutcome(o.Entry.Key, nil, int(e.Code), e.Message)
			default:
				l.OnOutcome(o.Entry.Key, nil, -1, o.Err.Error())
			}
		},
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Outbox{box, file}, nil
}

// Publish keeps a publication, and returns its idempotency key, which is made if key is empty.
func (b *Outbox) Publish(channel string, data []byte, key string) (string, error) {
	s, err := b.box.Publish(channel, data, &outbox.EntryOptions{Key: key})
	if err != nil {
		return "", err
	}
	return s.Entry.Key, nil
}

// RPC keeps a call, and returns its idempotency key, which is made if key is empty.
func (b *Outbox) RPC(method string, data []byte, key string) (string, error) {
	s, err := b.box.RPC(method, data, &outbox.EntryOptions{Key: key})
	if err != nil {
		return "", err
	}
	return s.Entry.Key, nil
}

// Len is how many entries wait.
func (b *Outbox) Len() int { return b.box.Len() }

// Close sends no more. Entries stay in the file.
func (b *Outbox) Close() error {
	b.box.Close()
	return b.file.Close()
}
