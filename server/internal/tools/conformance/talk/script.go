package talk

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// Script keeps the last lines of the transcript of several connections. Several goroutines may use it.
type Script struct {
	mu    sync.Mutex
	lines []string
}

const (
	keptLines = 400
	// In bytes of a message.
	lineWidth = 400
)

func (s *Script) add(name, arrow, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > lineWidth {
			line = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(line[:lineWidth], ""), len(line))
		}
		s.lines = append(s.lines, name+" "+arrow+" "+line)
	}
	if drop := len(s.lines) - keptLines; drop > 0 {
		s.lines = slices.Delete(s.lines, 0, drop)
	}
}

// Tail returns the last n lines: connection, arrow (→ to the server), message as JSON.
func (s *Script) Tail(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines[max(0, len(s.lines)-n):])
}

var secrets = regexp.MustCompile(`("(?:token|session)"\s*:\s*)"[^"]*"?`)

// sent shows a frame to the server without tokens, and Protobuf as JSON.
func sent(e protocol.Encoding, frame []byte) string {
	if e == protocol.JSON {
		return plain(frame)
	}
	return lines(frame, codec.For(e).DecodeCommand, func(cmd *protocol.Command) ([]byte, error) {
		hide(cmd)
		return cmd.AppendJSON(nil)
	})
}

// got shows a frame from the server in the same way, without sessions.
func got(e protocol.Encoding, frame []byte) string {
	if e == protocol.JSON {
		return plain(bytes.TrimSuffix(frame, []byte("\n")))
	}
	return lines(frame, codec.ForClient(e).DecodeReply, func(r *protocol.Reply) ([]byte, error) {
		if r.Connect != nil && r.Connect.Session != "" {
			r.Connect.Session = "…"
		}
		return r.AppendJSON(nil)
	})
}

func plain(frame []byte) string {
	if len(frame) == 0 || !utf8.Valid(frame) {
		return fmt.Sprintf("%.400q", frame)
	}
	return string(secrets.ReplaceAll(frame, []byte(`$1"…"`)))
}

// lines shows Protobuf messages as lines of JSON, and malformed messages and payloads that are not JSON as bytes.
func lines[T any](frame []byte, decode func([]byte, *T) ([]byte, error), text func(*T) ([]byte, error)) string {
	var out []string
	for rest := frame; len(rest) > 0; {
		m := new(T)
		after, err := decode(rest, m)
		if err != nil {
			return fmt.Sprintf("%.100x", frame)
		}
		line, err := text(m)
		if err != nil {
			line = fmt.Appendf(nil, "%.100x", rest[:len(rest)-len(after)])
		}
		out, rest = append(out, string(line)), after
	}
	if out == nil {
		return "(an empty frame)"
	}
	return strings.Join(out, "\n")
}

func hide(cmd *protocol.Command) {
	hidden := func(token *string) {
		if *token != "" {
			*token = "…"
		}
	}
	if cmd.Connect != nil {
		hidden(&cmd.Connect.Token)
	}
	if cmd.Subscribe != nil {
		hidden(&cmd.Subscribe.Token)
	}
	if cmd.Refresh != nil {
		hidden(&cmd.Refresh.Token)
	}
	if cmd.SubRefresh != nil {
		hidden(&cmd.SubRefresh.Token)
	}
}
