package top

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// None of them asks for an answer, which the view would wait for.
const (
	enter = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	next  = "\x1b[K\r\n" // clears the rest of the line
	rest  = "\x1b[K\x1b[J"
)

type terminal struct {
	in, out *os.File
	restore func() error
}

func open(in, out *os.File) (*terminal, error) {
	undo, err := sequences(out)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		undo()
		return nil, fmt.Errorf("terminal: %w", err)
	}
	t := &terminal{in: in, out: out, restore: func() error {
		defer undo()
		return term.Restore(int(in.Fd()), was)
	}}
	if _, err := out.WriteString(enter); err != nil {
		_ = t.restore()
		return nil, err
	}
	return t, nil
}

func (t *terminal) close() error {
	_, _ = t.out.WriteString(leave) // the terminal may be gone
	return t.restore()
}

func (t *terminal) draw(m *model) error {
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil && width > 0 && height > 0 {
		m.width, m.height = width, height
	}
	_, err := t.out.WriteString(home + strings.Join(m.view(), next) + rest)
	return err
}

// keys closes the channel when the terminal is gone.
func (t *terminal) keys() <-chan string {
	keys := make(chan string)
	go func() { // ends with the process, which ends with the view
		defer close(keys)
		var buf [64]byte
		for {
			n, err := t.in.Read(buf[:])
			if err != nil {
				return
			}
			for _, key := range strokes(string(buf[:n])) {
				keys <- key
			}
		}
	}()
	return keys
}

// strokes leaves out arrows and other keys of several bytes.
func strokes(sent string) (keys []string) {
	if sent == "\x1b" {
		return []string{sent}
	}
	sent, _, _ = strings.Cut(sent, "\x1b")
	for _, r := range sent {
		keys = append(keys, string(r))
	}
	return keys
}
