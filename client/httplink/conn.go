package httplink

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

// maxBody is how many bytes are posted together, unless a command is larger. Servers take 64 KiB by default.
const maxBody = 60_000

// postTime bounds the answer to a post. A server gives up after 10 s.
const postTime = 15 * time.Second

var (
	errCut     = errors.New("the client has ended the connection")
	errEnd     = errors.New("the server has ended the answer")
	errSession = errors.New("the server gives no session for commands: it does not support emulation on this endpoint")
)

// conn is a connection: the answer of the server, and posts beside it.
type conn struct {
	*dialer
	ctx   context.Context // ends with it; its cause is why
	end   context.CancelCauseFunc
	first chan []byte // the command that opens it

	mu            sync.Mutex
	begun         bool
	session, node string   // for posts
	queue         [][]byte // commands that wait to be posted, as they are in the body
	waiting       int      // their bytes
	posting       bool
}

// Write queues a frame for the next post. The first frame opens the connection.
func (c *conn) Write(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if !c.begun {
		c.begun = true
		first := frame
		if c.events { // its URL has the connect command alone
			first, frame = c.cut(frame)
		} else {
			frame = nil
		}
		c.first <- bytes.Clone(first)
	}
	for len(frame) > 0 {
		var command []byte
		command, frame = c.cut(frame)
		if !c.binary {
			command = quote(command)
		} else {
			command = bytes.Clone(command)
		}
		c.queue, c.waiting = append(c.queue, command), c.waiting+len(command)
	}
	if c.waiting > c.limit {
		err := fmt.Errorf("the server does not take commands: more than %d bytes wait for it", c.limit)
		c.end(err)
		return err
	}
	c.post()
	return nil
}

// cut returns the first command of a frame, and the rest.
func (c *conn) cut(frame []byte) (first, rest []byte) {
	if !c.binary {
		first, rest, _ = bytes.Cut(frame, []byte("\n"))
		return first, rest
	}
	size, n := binary.Uvarint(frame)
	if n <= 0 || size > uint64(len(frame)-n) {
		return frame, nil // the server reports the fault in it
	}
	return frame[:n+int(size)], frame[n+int(size):]
}

func quote(text []byte) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(text)) // cannot fail
	return out.Bytes()[1 : out.Len()-2]
}

// post posts the queue, unless a post is under way. The lock is held.
func (c *conn) post() {
	if c.posting || c.session == "" || len(c.queue) == 0 {
		return
	}
	c.posting = true
	go func() {
		for {
			body := c.body()
			if body == nil {
				return
			}
			if err := c.send(body); err != nil {
				c.end(err)
				return
			}
		}
	}()
}

// body returns nil if the queue is empty.
func (c *conn) body() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posting = len(c.queue) > 0 && c.ctx.Err() == nil
	if !c.posting {
		return nil
	}
	n, size := 0, 0
	for ; n < len(c.queue) && (n == 0 || size+len(c.queue[n]) <= maxBody); n++ {
		size += len(c.queue[n]) + len(`\n`)
	}
	request := protocol.EmulationRequest{Node: c.node, Session: c.session}
	separator := `\n`
	if c.binary {
		separator = ""
	}
	request.Data = bytes.Join(c.queue[:n], []byte(separator))
	c.waiting -= len(request.Data) - (n-1)*len(separator)
	c.queue = append([][]byte(nil), c.queue[n:]...)
	if c.binary {
		return request.AppendProto(nil)
	}
	request.Data = append(append([]byte{'"'}, request.Data...), '"')
	body, err := request.AppendJSON(nil)
	if err != nil {
		c.end(err)
	}
	return body
}

func (c *conn) send(body []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, postTime)
	defer cancel()
	r, err := c.request(ctx, http.MethodPost, c.emulation, body)
	if err != nil {
		return err
	}
	res, err := c.http.RoundTrip(r)
	if err != nil {
		return failed(r, err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return failed(r, wsclient.Refused(res))
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection is used again
	return nil
}

// Close ends the connection. HTTP has no word for the reason.
func (c *conn) Close(uint16, string) { c.Cut() }

func (c *conn) Cut() { c.end(errCut) }

func (c *conn) Read(handle func([]byte) error) error {
	defer c.Cut()
	var first []byte
	select {
	case first = <-c.first:
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	res, err := c.open(c.ctx, first)
	if err == nil {
		defer res.Body.Close()
		err = c.frames(wsclient.NewStreamReader(res.Body, c.limit), func(frame []byte) error {
			if err := c.begin(frame); err != nil {
				return err
			}
			return handle(frame)
		})
	}
	return cmp.Or(context.Cause(c.ctx), err)
}

func (c *conn) frames(r *wsclient.StreamReader, handle func([]byte) error) error {
	next := r.Line
	switch {
	case c.binary:
		next = r.Delimited
	case c.events:
		next = r.Event
	}
	for {
		frame, err := next()
		if errors.Is(err, io.EOF) {
			return errEnd
		}
		if err == nil && len(frame) > 0 {
			err = handle(frame)
		}
		if err != nil {
			return err
		}
	}
}

// begin finds the session in the replies of a frame, and posts the queue.
func (c *conn) begin(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		return nil
	}
	var r protocol.Reply
	if _, err := c.codec.DecodeReply(frame, &r); err != nil || r.Connect == nil {
		return nil // the client judges it
	}
	if r.Connect.Session == "" {
		return errSession
	}
	c.session, c.node = r.Connect.Session, r.Connect.Node
	c.post()
	return nil
}
