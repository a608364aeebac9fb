package conformance

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/gobwas/ws"
	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/testkit/certtest"
)

// tunnel carries the JSON of WebTransport clients over the WebSocket endpoint of a server, and returns its address. A close with a code of the
// protocol becomes a disconnect push.
func tunnel(t *testing.T, to string) string {
	t.Helper()
	s := &wt.Server{H3: &http3.Server{
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certtest.SelfSigned(1).TLS}}),
		EnableDatagrams: true, Logger: slog.New(slog.DiscardHandler),
	}}
	wt.ConfigureHTTP3Server(s.H3)
	var sessions sync.WaitGroup
	s.H3.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := s.Upgrade(w, r)
		if err != nil {
			return
		}
		sessions.Go(func() {
			defer func() { _ = session.CloseWithError(0, "") }() // the client may have gone
			stream, err := session.AcceptStream(session.Context())
			if err != nil {
				return
			}
			up, early, _, err := ws.Dial(t.Context(), to)
			if err != nil {
				return
			}
			defer up.Close()
			sessions.Go(func() {
				defer up.Close()
				lines := bufio.NewScanner(stream)
				lines.Buffer(nil, 1<<20)
				for lines.Scan() {
					if ws.WriteFrame(up, ws.MaskFrame(ws.NewTextFrame(lines.Bytes()))) != nil {
						return
					}
				}
			})
			var answers io.Reader = up
			if early != nil {
				answers = early
			}
			answer(answers, stream)
			<-session.Context().Done()
		})
	})
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	sessions.Go(func() { _ = s.Serve(conn) }) // until Close
	t.Cleanup(func() {
		s.Close()
		conn.Close()
		sessions.Wait()
	})
	return "https://" + conn.LocalAddr().String() + "/webtransport"
}

// answer writes the messages of a WebSocket as lines.
func answer(from io.Reader, to io.WriteCloser) {
	defer to.Close()
	for {
		f, err := ws.ReadFrame(from)
		if err != nil {
			return
		}
		line := f.Payload
		if f.Header.OpCode == ws.OpClose {
			code, reason := ws.ParseCloseFrameData(f.Payload)
			if code < 3000 {
				return
			}
			r := protocol.Reply{Push: &protocol.Push{Disconnect: &protocol.Disconnect{Code: uint32(code), Reason: reason}}}
			if line, err = r.AppendJSON(nil); err != nil {
				return
			}
		}
		if _, err := to.Write(append(line, '\n')); err != nil || f.Header.OpCode == ws.OpClose {
			return
		}
	}
}
