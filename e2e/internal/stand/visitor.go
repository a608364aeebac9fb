package stand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

// visitor is a connection of a user of its own that gives its commands one by one.
type visitor struct {
	// id is the client ID.
	id   string
	wire *wire
	// replies to commands.
	replies chan reply
	pushed  func(*reply)
	// over is closed when the connection has ended, and end tells how.
	over chan struct{}
	end  error
	last int
}

// visitorSilence is more than the time between the pings of any stand.
const visitorSilence = time.Minute

var errOver = errors.New("the connection has ended")

// visit connects to a node. pushed is called with all that is pushed, in order.
func (s *Stand) visit(ctx context.Context, addr, user string, pushed func(*reply)) (*visitor, error) {
	w, err := dialWire(ctx, addr, "/connection/websocket")
	if err != nil {
		return nil, err
	}
	v := &visitor{wire: w, replies: make(chan reply, 1), pushed: pushed, over: make(chan struct{})}
	s.visitors.Add(1)
	stop := context.AfterFunc(ctx, v.leave)
	go func() {
		defer s.visitors.Add(-1)
		defer stop()
		for v.end == nil {
			v.end = v.read()
		}
		w.conn.Close()
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

// do gives a command and returns its result.
func (v *visitor) do(command string) (*reply, error) {
	v.last++
	if err := v.wire.write(opText, fmt.Appendf(nil, `{"id":%d,%s}`, v.last, command)); err != nil {
		return nil, err
	}
	select {
	case r := <-v.replies:
		switch {
		case r.Error != nil:
			return nil, fmt.Errorf("error %d %s", r.Error.Code, r.Error.Message)
		case r.ID != v.last:
			return nil, fmt.Errorf("%w: reply %d to command %d", errProtocol, r.ID, v.last)
		}
		return &r, nil
	case <-v.over:
		return nil, errOver
	case <-time.After(answerTimeout):
		return nil, fmt.Errorf("no reply within %v to %s", answerTimeout, command)
	}
}

// read takes one frame.
func (v *visitor) read() error {
	frame, err := v.wire.read(visitorSilence)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(frame)) {
		if strings.TrimSpace(line) == "{}" {
			if err := v.wire.write(opText, []byte("{}")); err != nil {
				return err
			}
			continue
		}
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return err
		}
		if r.ID == 0 {
			v.pushed(&r)
			continue
		}
		select {
		case v.replies <- r:
		default:
			return fmt.Errorf("%w: a reply that nobody waits for: %s", errProtocol, line)
		}
	}
	return nil
}

// leave closes the connection without a word.
func (v *visitor) leave() { v.wire.conn.Close() }
