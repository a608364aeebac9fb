package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// Login of a connection.
type Login struct {
	User, Password string // User may be empty: the default user
	ClientName     string
	RESP2          bool // do not ask for RESP3
}

// handshakeTimeout is for a ctx without deadline.
const handshakeTimeout = 4 * time.Second

// Handshake makes a connection ready for commands: by HELLO 3, or by AUTH and CLIENT SETNAME for RESP2 and old servers.
// It ends when ctx does. Its errors hold no password.
func Handshake(ctx context.Context, conn net.Conn, login Login) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // an error means that conn is closed
	})
	h := handshake{resp.NewDialog(conn, login.User, login.Password), login}
	err := h.run()
	if !stop() { // the deadline in the past is set, or will be
		return fmt.Errorf("handshake: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return conn.SetDeadline(time.Time{})
}

type handshake struct {
	*resp.Dialog
	login Login
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
	if err := h.Auth(); err != nil {
		return err
	}
	if h.login.ClientName != "" {
		if _, err := h.Do("CLIENT", "SETNAME", h.login.ClientName); err != nil {
			return err
		}
	}
	if _, err := h.Do("PING"); err != nil { // refused without authentication
		return err
	}
	return h.rest()
}

func (h *handshake) hello() error {
	args := []string{"HELLO", "3"}
	if h.login.Password != "" {
		args = append(args, "AUTH", cmp.Or(h.login.User, "default"), h.login.Password)
	}
	if h.login.ClientName != "" {
		args = append(args, "SETNAME", h.login.ClientName)
	}
	_, err := h.Do(args...)
	return err
}

func (h *handshake) rest() error {
	if !h.Empty() {
		return errors.New("more answers than commands")
	}
	return nil
}

func unknown(err error) bool {
	var r *resp.ErrorReply
	return errors.As(err, &r) && (strings.HasPrefix(r.Text, "NOPROTO") || strings.HasPrefix(strings.ToLower(r.Text), "err unknown command"))
}
