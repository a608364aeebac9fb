package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"
)

// proxy puts a fault between clients and a server, and returns its address.
func proxy(t *testing.T, to string, f fault) string {
	t.Helper()
	var wait sync.WaitGroup
	t.Cleanup(wait.Wait)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait.Add(1)
		defer wait.Done()
		down, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		defer down.Close()
		up, early, _, err := ws.Dial(t.Context(), to+strings.TrimSuffix(r.URL.Path, "/"))
		if err != nil {
			return
		}
		defer up.Close()
		var answers io.Reader = up
		if early != nil {
			answers = early
		}
		l := &link{count: make(map[string]int)}
		wait.Go(func() {
			defer up.Close()
			carry(down, up, func(frame []byte) []byte {
				return translate(frame, func(in []message) []message { return change(f.command, l, in) })
			}, nil, true)
		})
		carry(answers, down, func(frame []byte) []byte {
			frame = translate(frame, func(in []message) []message { return change(f.messages, l, in) })
			if f.frame != nil && frame != nil {
				frame = f.frame(frame)
			}
			return frame
		}, f.end, false)
	}))
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http")
}

func change(by func(*link, []message) []message, l *link, in []message) []message {
	if by == nil {
		return in
	}
	return by(l, in)
}

// carry passes frames on until the connection ends.
func carry(from io.Reader, to net.Conn, edit func([]byte) []byte, end func(ws.StatusCode, string) (ws.StatusCode, string), masked bool) {
	write := func(f ws.Frame) error {
		if masked {
			f = ws.MaskFrameInPlace(f)
		}
		return ws.WriteFrame(to, f)
	}
	for {
		f, err := ws.ReadFrame(from)
		if err != nil {
			return
		}
		if f.Header.Masked {
			f = ws.UnmaskFrameInPlace(f)
		}
		switch f.Header.OpCode {
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(f.Payload)
			if end != nil {
				code, reason = end(code, reason)
			}
			_ = write(ws.NewCloseFrame(ws.NewCloseFrameBody(code, reason))) // the other end may be gone
			return
		case ws.OpText, ws.OpBinary:
			payload := edit(f.Payload)
			if payload == nil {
				continue
			}
			err = write(ws.NewFrame(f.Header.OpCode, true, payload))
		default:
			err = write(f)
		}
		if err != nil {
			return
		}
	}
}

// translate changes the messages of a frame; nil: nothing is left. What is no JSON is one message with the key rawFrame. What is not
// changed keeps its bytes.
func translate(frame []byte, change func([]message) []message) []byte {
	var in []message
	for line := range bytes.Lines(frame) {
		m, err := parse(line)
		if err != nil {
			in = nil
			break
		}
		in = append(in, m)
	}
	isRaw := in == nil
	if isRaw {
		in = []message{{rawFrame: string(frame)}}
	}
	out := change(in)
	if len(out) == 0 {
		return nil
	}
	if isRaw {
		return frame
	}
	var lines [][]byte
	for _, m := range out {
		lines = append(lines, line(m))
	}
	return bytes.Join(lines, []byte("\n"))
}

// rawFrame is the key by which a frame that is no JSON goes through faults.
const rawFrame = "\x00raw"

// lineKey is the key by which a message has its bytes.
const lineKey = "\x00line"

// parse reads a message. Payloads stay as they are.
func parse(text []byte) (message, error) {
	v, err := value(text)
	m, ok := v.(message)
	if err != nil || !ok {
		return nil, errors.New("no message")
	}
	m[lineKey] = string(bytes.TrimSuffix(text, []byte("\n")))
	return m, nil
}

func value(text []byte) (any, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) == nil && fields != nil {
		m := make(message)
		for key, field := range fields {
			if key == "data" {
				m[key] = field
				continue
			}
			var err error
			if m[key], err = value(field); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(text, &items) == nil && items != nil {
		list := make([]any, len(items))
		for i, item := range items {
			var err error
			if list[i], err = value(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	var v any
	err := json.Unmarshal(text, &v)
	return v, err
}

// line encodes a message.
func line(m message) []byte {
	if was, ok := m[lineKey].(string); ok {
		before, err := parse([]byte(was))
		if err == nil && reflect.DeepEqual(before, m) {
			return []byte(was)
		}
		m = maps.Clone(m)
		delete(m, lineKey)
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return text
}
