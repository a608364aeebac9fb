package xconnect_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	_ "github.com/gyrohq/gyro/server/internal/web/xconnect"
)

// An HTTP/2 server's first frame is SETTINGS; parameter 8 announces extended
// CONNECT.
func TestOffered(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	var head [9]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	for ; len(body) >= 6; body = body[6:] {
		if binary.BigEndian.Uint16(body) == 8 && binary.BigEndian.Uint32(body[2:]) == 1 {
			return
		}
	}
	t.Fatal("SETTINGS do not announce extended CONNECT")
}
