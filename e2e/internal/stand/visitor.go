package stand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/internal/wsclient"
)

// visitor is a client that gives one command after the other.
type visitor struct {
	id      string
	conn    *wsclient.Conn
	replies chan reply
	pushed  func(*reply)
	// over is closed when the connection has ended, and end tells how.
	over chan struct{}
	end  error
	last int
}

// visitorSilence bounds the time without any message. It is longer than all ping intervals of stands.
const visitorSilence = time.Minute

var errOver = errors.New("the connection has ended")

// visit connects as a user. pushed is called with all pushes, in order.
func (s *Stand) visit(ctx context.Context, addr, user string, pushed func(*reply)) (*visitor, error) {
	w, err := wire.Dial(ctx, addr, "/connection/websocket")
	if err != nil {
		return nil, err
	}
	v := &visitor{conn: w, replies: make(chan reply, 1), pushed: pushed, over: make(chan struct{})}
	s.visitors.Add(1)
	stop := context.AfterFunc(ctx, v.leave)
	go func() {
		defer s.visitors.Add(-1)
		defer stop()
		for v.end == nil {
			v.end = wire.Messages(w, visitorSilence, v.take)
		}
		w.Cut()
		close(v.over)
	}()
	r, err := v.do(fmt.Sprintf(`"connect":{"token":%q}`, rig.Token(map[string]any{"sub": user})))
	if err != nil {
		v.leave()
		return nil, err
	}
	v.id = r.Connect.Client
	return v, nil
}

func (v *visitor) do(command string) (*reply, error) {
	v.last++
	if err := wire.Send(v.conn, fmt.Appendf(nil, `{"id":%d,%s}`, v.last, command)); err != nil {
		return nil, err
	}
	select {
	case r := <-v.replies:
		switch {
		case r.Error != nil:
			return nil, fmt.Errorf("error %d %s", r.Error.Code, r.Error.Message)
		case r.ID != v.last:
			return nil, fmt.Errorf("%w: reply %d to command %d", wire.ErrProtocol, r.ID, v.last)
		}
		return &r, nil
	case <-v.over:
		return nil, errOver
	case <-time.After(answerTimeout):
		return nil, fmt.Errorf("no reply within %v to %s", answerTimeout, command)
	}
}

func (v *visitor) take(r *reply) error {
	if r.ID == 0 {
		v.pushed(r)
		return nil
	}
	select {
	case v.replies <- *r:
		return nil
	default:
		return fmt.Errorf("%w: a reply to command %d, which has one already", wire.ErrProtocol, r.ID)
	}
}

// leave closes the connection without a close frame.
func (v *visitor) leave() { v.conn.Cut() }
