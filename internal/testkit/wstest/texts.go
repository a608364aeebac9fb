package wstest

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/wsclient"
)

// Texts is a WebSocket connection whose messages are texts, of any protocol.
type Texts struct {
	tb   testing.TB
	conn *wsclient.Conn
}

// DialTexts opens a WebSocket connection to an http:// address, with header (or nil). It ends with the test.
func DialTexts(tb testing.TB, address string, header http.Header) *Texts {
	tb.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	conn, err := (&wsclient.Dialer{URL: address, Header: header, Limit: 1 << 20, Transport: transport}).Dial(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	late := time.AfterFunc(wait.Limit, conn.Cut)
	tb.Cleanup(func() {
		late.Stop()
		conn.Cut()
	})
	return &Texts{tb, conn}
}

// Send sends a message.
func (c *Texts) Send(text string) {
	c.tb.Helper()
	if err := c.conn.Write([]byte(text)); err != nil {
		c.tb.Fatal(err)
	}
}

// Next returns the next message, or the code and the reason of the Close frame.
func (c *Texts) Next() (text string, code uint32, reason string) {
	c.tb.Helper()
	message, err := c.conn.Next()
	var closed *wsclient.CloseError
	switch {
	case errors.As(err, &closed):
		return "", closed.Code, closed.Reason
	case err != nil:
		c.tb.Fatal(err)
	}
	return string(message), 0, ""
}
