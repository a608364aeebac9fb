package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// StreamDialer opens streams of the transport http_stream.
type StreamDialer struct {
	HTTP      *http.Client
	URL       string // of the streams
	Emulation string // endpoint of the clients' commands
	Encoding  protocol.Encoding
}

// Stream is a client that is connected by a stream. One goroutine may read, another one may send.
type Stream struct {
	dialer        *StreamDialer
	node, session string
	body          io.ReadCloser
	replies       *bufio.Reader
}

// maxReply bounds a reply, in bytes.
const maxReply = 1 << 20

// Open connects a client. Its stream ends with ctx.
func (d *StreamDialer) Open(ctx context.Context, connect *protocol.ConnectRequest) (*Stream, error) {
	frame, err := codec.ForClient(d.Encoding).AppendCommand(nil, &protocol.Command{ID: 1, Connect: connect})
	if err != nil {
		return nil, err
	}
	res, err := d.post(ctx, d.URL, frame) //nolint:bodyclose // Close does
	if err != nil {
		return nil, err
	}
	s := &Stream{dialer: d, body: res.Body, replies: bufio.NewReader(res.Body)}
	if res.StatusCode != http.StatusOK {
		s.Close()
		return nil, fmt.Errorf("%s: HTTP status %d", d.URL, res.StatusCode)
	}
	var reply protocol.Reply
	switch err = s.Read(&reply); {
	case err != nil:
	case reply.Error != nil:
		err = reply.Error
	case reply.Connect == nil || reply.Connect.Session == "":
		err = errors.New("the answer to connect has no session")
	default:
		s.node, s.session = reply.Connect.Node, reply.Connect.Session
		return s, nil
	}
	s.Close()
	return nil, err
}

func (d *StreamDialer) post(ctx context.Context, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if d.Encoding == protocol.Protobuf {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	return d.HTTP.Do(req)
}

// Read reads the next reply. A disconnect is an error.
func (s *Stream) Read(reply *protocol.Reply) error {
	frame, err := s.next()
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	*reply = protocol.Reply{}
	if _, err = codec.ForClient(s.dialer.Encoding).DecodeReply(frame, reply); err != nil {
		return err
	}
	if p := reply.Push; p != nil && p.Disconnect != nil {
		return fmt.Errorf("disconnected: %d %s", p.Disconnect.Code, p.Disconnect.Reason)
	}
	return nil
}

func (s *Stream) next() ([]byte, error) {
	if s.dialer.Encoding == protocol.JSON {
		return s.replies.ReadBytes('\n')
	}
	n, err := binary.ReadUvarint(s.replies)
	if err != nil {
		return nil, err
	}
	if n > maxReply {
		return nil, fmt.Errorf("a reply has %d bytes", n)
	}
	frame := binary.AppendUvarint(nil, n)
	frame = append(frame, make([]byte, n)...)
	_, err = io.ReadFull(s.replies, frame[len(frame)-int(n):])
	return frame, err
}

// Send sends a command by an emulation request.
func (s *Stream) Send(ctx context.Context, cmd *protocol.Command) error {
	body, err := s.request(cmd)
	if err != nil {
		return err
	}
	res, err := s.dialer.post(ctx, s.dialer.Emulation, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxReply))
	if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("%s: HTTP status %d", s.dialer.Emulation, res.StatusCode)
	}
	return err
}

// request returns the body of an emulation request.
func (s *Stream) request(cmd *protocol.Command) ([]byte, error) {
	frame, err := codec.ForClient(s.dialer.Encoding).AppendCommand(nil, cmd)
	if err != nil {
		return nil, err
	}
	req := protocol.EmulationRequest{Node: s.node, Session: s.session, Data: frame}
	if s.dialer.Encoding == protocol.Protobuf {
		return req.AppendProto(nil), nil
	}
	req.Data = codec.AppendJSONString(nil, frame)
	return req.AppendJSON(nil)
}

// Close ends the connection.
func (s *Stream) Close() { _ = s.body.Close() } // nobody needs the rest
