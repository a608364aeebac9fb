package resp

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Dialog sends commands one at a time, and reads no more than the answers.
type Dialog struct {
	net.Conn
	reader         *Reader
	user, password string
}

// maxAnswer is in bytes. CLUSTER NODES takes some 100 for each node.
const maxAnswer = 1 << 20

// NewDialog begins a dialog. Without a password, no Auth is needed; an empty user is the default user.
func NewDialog(conn net.Conn, user, password string) *Dialog {
	return &Dialog{conn, NewReader(conn, 4<<10, maxAnswer), user, password}
}

// Auth sends AUTH if there is a password.
func (d *Dialog) Auth() error {
	args := []string{"AUTH", d.user, d.password}
	if d.user == "" {
		args = []string{"AUTH", d.password}
	}
	if d.password == "" {
		return nil
	}
	_, err := d.Do(args...)
	return err
}

// Do sends a command. An error that the server answers is an *ErrorReply.
func (d *Dialog) Do(args ...string) (f Frame, err error) {
	command := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		command = AppendBulk(command, arg)
	}
	if _, err := d.Write(command); err != nil {
		return f, err
	}
	if f, err = d.Next(); err == nil && (f.Kind == '-' || f.Kind == '!') {
		err = &ErrorReply{args[0], d.clean(string(f.Text))}
	}
	return f, err
}

// Next returns the next value from the server.
func (d *Dialog) Next() (f Frame, err error) {
	err = d.reader.Next(&f)
	return f, err
}

// Empty reports whether everything that the server has sent was returned.
func (d *Dialog) Empty() bool { return d.reader.Empty() }

// ErrorReply is an error that the server answers. It never holds the password.
type ErrorReply struct{ Command, Text string }

func (r *ErrorReply) Error() string { return r.Command + ": redis answered: " + r.Text }

// clean takes out the arguments, which the server repeats.
func (d *Dialog) clean(text string) string {
	text, _, _ = strings.Cut(text, " with args")
	text = strings.TrimRight(text, ", ")
	if d.password != "" && strings.Contains(text, d.password) {
		text, _, _ = strings.Cut(text, " ")
		if strings.Contains(text, d.password) {
			text = "an error"
		}
	}
	return text[:min(len(text), 200)]
}

// AppendBulk appends a part of a command.
func AppendBulk(buf []byte, s string) []byte {
	buf = append(buf, '$')
	buf = strconv.AppendInt(buf, int64(len(s)), 10)
	buf = append(buf, "\r\n"...)
	buf = append(buf, s...)
	return append(buf, "\r\n"...)
}
