package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/gyrohq/gyro/protocol"
)

// polls makes one connection of long polls.
type polls struct {
	conn    net.Conn
	head    []byte // of each request, up to the value of Content-Length
	hello   []byte // the connect request without positions and without its end
	recover bool   // the first request had positions
	began   bool   // the first answer has come
	size    int    // of the answer under way, with its head; 0: the head is not complete
	from    int    // where its body begins
}

// newPolls returns polls whose first request was req, with the connect request hello.
func newPolls(conn net.Conn, req *http.Request, hello *protocol.ConnectRequest, length int64) (*polls, error) {
	if err := checkLength(length); err != nil {
		return nil, err
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\n", req.URL.RequestURI(), req.URL.Host)
	_ = req.Header.Write(&head) // a buffer does not fail
	head.WriteString("Content-Length: ")
	first := *hello
	first.Subs = nil
	text, err := first.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return &polls{conn: conn, head: head.Bytes(), hello: bytes.TrimSuffix(text, []byte("}")), recover: hello.Subs != nil, size: int(length)}, nil
}

func checkLength(length int64) error {
	if length <= 0 || length > maxFrame {
		return fmt.Errorf("the server sends an answer of %d bytes, or of unknown size; the limit is %d", length, maxFrame)
	}
	return nil
}

const recovered = "choose a channel (--channel) of a namespace with history_size, history_ttl and force_recovery"

func pollHint(err error, k Kind) string {
	if k.polls && errors.Is(err, os.ErrDeadlineExceeded) {
		return " (a poll waits if the server does not recover the channel: " + recovered + ")"
	}
	return ""
}

type polled struct {
	Pushes []json.RawMessage
	Subs   json.RawMessage
	Lost   []string
}

func (p *polls) consume(data []byte, handle func([]byte) error) (rest []byte, err error) {
	for {
		if p.size == 0 {
			if err := p.begin(data); err != nil {
				return nil, err
			}
		}
		if p.size == 0 || len(data) < p.size {
			return data, nil
		}
		body := data[p.from:p.size]
		data, p.size = data[p.size:], 0
		if err := p.answered(body, handle); err != nil {
			return nil, err
		}
	}
}

func (p *polls) begin(data []byte) error {
	end := bytes.Index(data, []byte("\r\n\r\n"))
	switch {
	case end < 0 && len(data) > maxHead:
		return fmt.Errorf("the head of the answer has more than %d bytes", maxHead)
	case end < 0:
		return nil
	}
	head := data[:end+2]
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		return fmt.Errorf("the server answers with %q", line)
	}
	_, rest, _ := bytes.Cut(bytes.ToLower(head), []byte("\r\ncontent-length: "))
	digits, _, _ := bytes.Cut(rest, []byte("\r\n"))
	length, _ := strconv.ParseInt(string(digits), 10, 64) // 0 if there is none, which is refused
	p.from = end + 4
	p.size = p.from + int(length)
	return checkLength(length)
}

func (p *polls) answered(body []byte, handle func([]byte) error) error {
	var a polled
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("the answer is malformed: %w", err)
	}
	if !p.began {
		p.began = true
		connect, err := a.connect(p.recover)
		if err == nil {
			err = handle(connect)
		}
		if err != nil {
			return err
		}
		a.Pushes = nil
	}
	for _, push := range a.Pushes {
		if err := handle(push); err != nil {
			return err
		}
	}
	text := slices.Concat(p.hello, []byte(`,"subs":`), a.Subs, []byte("}"))
	_, err := p.conn.Write(slices.Concat(strconv.AppendInt(slices.Clone(p.head), int64(len(text)), 10), []byte("\r\n\r\n"), text))
	return err
}

// connect returns the result of the first answer as a connect push.
func (a *polled) connect(recovers bool) ([]byte, error) {
	var positions map[string]*protocol.SubscribeRequest
	if err := json.Unmarshal(a.Subs, &positions); err != nil {
		return nil, fmt.Errorf("the answer is malformed: %w", err)
	}
	if len(positions) == 0 {
		return nil, errors.New("the client has no channel that the server recovers, and long polls miss messages of others: " + recovered +
			", for which the client has a token (--token-hmac-secret)")
	}
	c := &protocol.Connect{Subs: make(map[string]*protocol.SubscribeResult)}
	for ch, at := range positions {
		if !at.Recover {
			return nil, fmt.Errorf("long polls miss messages of %q, which the server does not recover: %s", ch, recovered)
		}
		c.Subs[ch] = &protocol.SubscribeResult{
			Recoverable: true, Offset: at.Offset, Epoch: at.Epoch, Recovered: recovers && !slices.Contains(a.Lost, ch),
		}
	}
	for _, text := range a.Pushes {
		var push protocol.Push
		if err := push.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		if push.Disconnect != nil {
			return nil, *push.Disconnect
		}
		if sub := c.Subs[push.Channel]; push.Pub != nil && sub != nil {
			sub.Publications = append(sub.Publications, push.Pub)
		}
	}
	return (&protocol.Push{Connect: c}).AppendJSON(nil)
}
