package httpstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/transporttest"
)

// The contract that transports of others have to keep.
func TestContract(t *testing.T) {
	for w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T, a transport.Acceptor) func() (transporttest.Client, error) {
				s := newServer(t, HTTPStream, w, Config{}, func(s *testServer) { s.accepted = a })
				return s.follow
			})
		})
	}
}

// contractClient is a transporttest.Client.
type contractClient struct {
	body io.ReadCloser
	in   *bufio.Reader
	gone func()
}

// follow opens a stream.
func (s *testServer) follow() (transporttest.Client, error) {
	ctx, gone := context.WithCancel(context.Background())
	client := s.Client()
	resp, err := client.Do(s.usual().WithContext(ctx))
	switch {
	case err != nil:
		gone()
		return nil, err
	case resp.StatusCode != http.StatusOK:
		resp.Body.Close()
		gone()
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return &contractClient{resp.Body, bufio.NewReader(resp.Body), func() {
		gone()
		client.CloseIdleConnections()
	}}, nil
}

func (c *contractClient) Send([]byte) error { return errors.New("a stream takes nothing more") }

func (c *contractClient) Receive() ([]byte, error) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var r protocol.Reply
	if _, err := codec.ForClient(protocol.JSON).DecodeReply(line, &r); err == nil && r.Push != nil && r.Push.Disconnect != nil {
		return nil, *r.Push.Disconnect
	}
	return line[:len(line)-1], nil
}

func (c *contractClient) Close() error {
	c.gone()
	return c.body.Close()
}
