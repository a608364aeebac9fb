package talk

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// SectionSockJS is the section on the frames of SockJS.
const SectionSockJS = "protocol-rules.md#sockjs"

// SockJS returns a dialer of SockJS sessions over WebSocket, at an endpoint such as
// http://localhost:8000/connection/sockjs.
func SockJS(endpoint string, config *tls.Config) func(ctx context.Context) (Link, error) {
	return func(ctx context.Context) (Link, error) {
		url := fmt.Sprintf("ws%s/%03d/%x/websocket", strings.TrimSuffix(strings.TrimPrefix(endpoint, "http"), "/"), rand.IntN(1000), rand.Uint64())
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		d, err := client.WebSocket(url)(&client.Options{TLS: config, MessageLimit: messageLimit})
		if err != nil {
			return nil, err
		}
		conn, err := d.Dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", url, err)
		}
		return &sockJS{conn}, nil
	}
}

type sockJS struct{ Link }

// Write sends a frame of the protocol as one text of SockJS.
func (l *sockJS) Write(frame []byte) error {
	text, err := json.Marshal([]string{string(frame)})
	if err != nil {
		return err
	}
	return l.Link.Write(text)
}

// Read calls handle with the frames of the protocol until the session ends.
func (l *sockJS) Read(handle func([]byte) error) error {
	opened := false
	err := l.Link.Read(func(text []byte) error {
		err := l.frame(text, opened, handle)
		opened = true
		return err
	})
	if errors.Is(err, wire.ErrTooBig) {
		return &Violation{SectionSockJS, fmt.Sprintf("a frame of SockJS has more than %d bytes", messageLimit)}
	}
	return err
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
		return &wire.CloseError{Code: uint32(code), Reason: reason}
	default:
		return bad("a frame of SockJS is of an unknown kind")
	}
	return nil
}
