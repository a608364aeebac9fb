package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Output is where a command writes: data to Out, messages to Err. One goroutine at a time calls its methods.
type Output struct {
	Out, Err io.Writer
	JSON     bool
	// Terminal replaces characters that could control a terminal.
	Terminal bool
}

func (o *Output) line(text string) error {
	if o.Terminal {
		text = harmless(text)
	}
	_, err := io.WriteString(o.Out, text+"\n")
	return err
}

func (o *Output) object(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return o.line(strings.TrimSuffix(buf.String(), "\n"))
}

func (o *Output) table(rows [][]string) error {
	var buf strings.Builder
	w := tabwriter.NewWriter(&buf, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = harmless(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(o.Out, buf.String())
	return err
}

// message writes nothing if Err is nil.
func (o *Output) message(format string, args ...any) {
	if o.Err == nil {
		return
	}
	fmt.Fprintln(o.Err, harmless(fmt.Sprintf(format, args...)))
}

// harmless replaces control characters, by which a publisher could control the terminal.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// compact makes one line of a payload, and a JSON string of one that is not JSON.
func compact(data []byte) json.RawMessage {
	var buf bytes.Buffer
	if json.Compact(&buf, data) != nil {
		buf.Reset()
		text, _ := json.Marshal(string(data)) // a string always has a form
		buf.Write(text)
	}
	return buf.Bytes()
}
