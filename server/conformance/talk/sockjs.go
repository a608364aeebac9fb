package talk

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/server/internal/wire"
)

// SectionSockJS is the section on the frames of SockJS.
const SectionSockJS = "protocol-rules.md#sockjs"

// SockJS returns what opens SockJS sessions over WebSocket, at an endpoint such as http://localhost:8000/connection/sockjs.
func SockJS(endpoint string, config *tls.Config) func(ctx context.Context) (Link, error) {
	return func(ctx context.Context) (Link, error) {
		url := fmt.Sprintf("ws%s/%03d/%x/websocket", strings.TrimSuffix(strings.TrimPrefix(endpoint, "http"), "/"), rand.IntN(1000), rand.Uint64())
		d := ws.Dialer{TLSConfig: config, Timeout: 20 * time.Second}
		conn, buffered, _, err := d.Dial(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
		l := &sockJS{conn: conn, read: conn.Read}
		if buffered != nil {
			l.read = buffered.Read
		}
		return l, nil
	}
}

// sockJS is a session.
type sockJS struct {
	conn net.Conn
	read func([]byte) (int, error)
	mu   sync.Mutex // orders writes
}

// next returns the next frame of the WebSocket, if it is no larger than room.
func (l *sockJS) next(room int) (f ws.Frame, err error) {
	if f.Header, err = ws.ReadHeader(reader(l.read)); err != nil {
		return f, err
	}
	if f.Header.Length > int64(room) {
		return f, &Violation{SectionSockJS, fmt.Sprintf("a frame of SockJS has more than %d bytes", messageLimit)}
	}
	f.Payload = make([]byte, f.Header.Length)
	_, err = io.ReadFull(reader(l.read), f.Payload)
	return f, err
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func (l *sockJS) send(f ws.Frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ws.WriteFrame(l.conn, ws.MaskFrameInPlace(f))
}

// Write sends a frame of the protocol as one text of SockJS.
func (l *sockJS) Write(frame []byte) error {
	text, err := json.Marshal([]string{string(frame)})
	if err != nil {
		return err
	}
	return l.send(ws.NewTextFrame(text))
}

// Cut ends the connection at once.
func (l *sockJS) Cut() { l.conn.Close() }

// Read calls handle with the texts of the session, which are the frames of the protocol, until it ends.
func (l *sockJS) Read(handle func([]byte) error) error {
	defer l.Cut()
	var text []byte // of a message, which may come in several frames of the WebSocket
	for opened := false; ; {
		f, err := l.next(messageLimit - len(text))
		if err != nil {
			return err
		}
		switch f.Header.OpCode {
		case ws.OpPing:
			err = l.send(ws.NewPongFrame(f.Payload))
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(f.Payload)
			err = &wire.CloseError{Code: uint16(code), Reason: reason}
		case ws.OpText, ws.OpContinuation:
			text = append(text, f.Payload...)
			if !f.Header.Fin {
				continue
			}
			err = l.frame(text, opened, handle)
			opened, text = true, nil
		}
		if err != nil {
			return err
		}
	}
}

// frame takes a frame of SockJS. The first one is the letter o.
func (l *sockJS) frame(text []byte, opened bool, handle func([]byte) error) error {
	bad := func(what string) error { return &Violation{SectionSockJS, fmt.Sprintf("%s: %.200q", what, text)} }
	switch {
	case len(text) == 0:
		return bad("a frame of SockJS is empty")
	case !opened && string(text) != "o":
		return bad("the first frame of a session is not o")
	case opened && text[0] == 'o':
		return bad("o comes a second time")
	}
	switch text[0] {
	case 'o', 'h':
		if len(text) > 1 {
			return bad("a frame o or h has something behind the letter")
		}
	case 'a':
		var frames []string
		if json.Unmarshal(text[1:], &frames) != nil || len(frames) == 0 {
			return bad("a frame a has no list of texts")
		}
		for _, frame := range frames {
			if err := handle([]byte(frame)); err != nil {
				return err
			}
		}
	case 'c':
		end := [2]any{}
		if json.Unmarshal(text[1:], &end) != nil {
			return bad("a frame c has no list of a code and a reason")
		}
		code, isCode := end[0].(float64)
		reason, isReason := end[1].(string)
		if !isCode || !isReason || code != float64(uint16(code)) {
			return bad("a frame c has no list of a code and a reason")
		}
		return &wire.CloseError{Code: uint16(code), Reason: reason}
	default:
		return bad("a frame of SockJS is of an unknown kind")
	}
	return nil
}
