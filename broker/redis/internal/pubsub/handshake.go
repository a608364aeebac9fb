package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/pubsub/resp"
)

// Login is what a connection tells the server first.
type Login struct {
	User, Password string // User may be empty: the default user
	ClientName     string
	RESP2          bool // do not ask for RESP3
}

// handshakeTimeout counts if ctx has no deadline.
const handshakeTimeout = 4 * time.Second

// maxReply of a server in bytes, to anything in a handshake.
const maxReply = 64 << 10

// Handshake makes a connection ready for commands: HELLO 3 with authentication and
// name, or AUTH and CLIENT SETNAME for RESP2 and servers that do not know HELLO. It
// ends when ctx does. Its errors hold no password. After an error the connection is
// of no use.
func Handshake(ctx context.Context, conn net.Conn, login Login) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // an error means that it is closed
	})
	h := handshake{conn: conn, login: login, reader: resp.NewReader(conn, 4<<10, maxReply)}
	err := h.run()
	if !stop() { // the deadline of the past may be set at any moment
		return fmt.Errorf("handshake: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return conn.SetDeadline(time.Time{})
}

type handshake struct {
	conn   net.Conn
	login  Login
	reader *resp.Reader
}

func (h *handshake) run() error {
	if !h.login.RESP2 {
		switch err := h.hello(); {
		case err == nil:
			return h.rest()
		case !unknown(err):
			return err
		}
	}
	if h.login.Password != "" {
		auth := []string{"AUTH", h.login.User, h.login.Password}
		if h.login.User == "" {
			auth = []string{"AUTH", h.login.Password}
		}
		if err := h.do(auth...); err != nil {
			return err
		}
	}
	if h.login.ClientName != "" {
		if err := h.do("CLIENT", "SETNAME", h.login.ClientName); err != nil {
			return err
		}
	}
	if err := h.do("PING"); err != nil { // who did not authenticate learns it here
		return err
	}
	return h.rest()
}

func (h *handshake) hello() error {
	args := []string{"HELLO", "3"}
	if h.login.Password != "" {
		user := h.login.User
		if user == "" {
			user = "default"
		}
		args = append(args, "AUTH", user, h.login.Password)
	}
	if h.login.ClientName != "" {
		args = append(args, "SETNAME", h.login.ClientName)
	}
	return h.do(args...)
}

// rest checks that the server has said no more than it was asked.
func (h *handshake) rest() error {
	if !h.reader.Empty() {
		return errors.New("more answers than commands")
	}
	return nil
}

// do sends a command and reads its answer.
func (h *handshake) do(args ...string) error {
	buf := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		buf = appendBulk(buf, arg)
	}
	if _, err := h.conn.Write(buf); err != nil {
		return err
	}
	var f resp.Frame
	if err := h.reader.Next(&f); err != nil {
		return err
	}
	if f.Kind == '-' || f.Kind == '!' {
		return &refusal{args[0], h.clean(string(f.Text))}
	}
	return nil
}

// refusal is an error that the server answers with.
type refusal struct{ command, text string }

func (r *refusal) Error() string { return r.command + ": redis answered: " + r.text }

// clean takes out what the server repeats of the command's arguments.
func (h *handshake) clean(text string) string {
	text, _, _ = strings.Cut(text, " with args")
	text = strings.TrimRight(text, ", ")
	if password := h.login.Password; password != "" && strings.Contains(text, password) {
		text, _, _ = strings.Cut(text, " ")
		if strings.Contains(text, password) {
			text = "an error"
		}
	}
	return text[:min(len(text), 200)]
}

// unknown reports whether the server does not know HELLO, or not RESP3.
func unknown(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (strings.HasPrefix(r.text, "NOPROTO") || strings.HasPrefix(strings.ToLower(r.text), "err unknown command"))
}
