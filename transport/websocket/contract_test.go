package websocket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/transporttest"
)

// The contract that transports of others have to keep.
func TestContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, a transport.Acceptor) func() (transporttest.Client, error) {
		s := &testServer{t: t, accepted: a}
		s.runLoop()
		h := NewHandler(s, Config{})
		s.Server = httptest.NewUnstartedServer(h)
		s.begin(h)
		return func() (transporttest.Client, error) { return upgraded(s.dial()) }
	})
}

// contractClient is a transporttest.Client.
type contractClient struct {
	net.Conn
	r *bufio.Reader
}

// upgraded shakes hands.
func upgraded(nc net.Conn) (transporttest.Client, error) {
	_ = nc.SetDeadline(time.Now().Add(patience))
	c := &contractClient{nc, bufio.NewReader(nc)}
	if _, err := nc.Write([]byte(request("gyro.test", "/", nil))); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		nc.Close()
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return c, nil
}

func (c *contractClient) Send(message []byte) error {
	_, err := c.Write(masked(text(string(message))))
	return err
}

func (c *contractClient) Receive() ([]byte, error) {
	f, err := frametest.Read(c.r)
	switch {
	case err != nil:
		return nil, err
	case f.Op == frametest.OpClose:
		return nil, protocol.Disconnect{Code: uint32(binary.BigEndian.Uint16([]byte(f.Payload)))}
	case f.Op != frametest.OpText:
		return nil, errors.New("not a text")
	}
	return []byte(f.Payload), nil
}
