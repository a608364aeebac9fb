package notify

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/server/internal/services"
)

// NATS drops messages beyond these bounds of waiting ones.
const (
	maxWaiting      = 65_536
	maxWaitingBytes = 16 << 20
)

type natsSource struct {
	server services.NATS
	conn   *nats.Conn
	closed chan struct{} // closed when conn is
}

func (s *natsSource) start(ctx context.Context, r *Receiver) (err error) {
	s.closed = make(chan struct{})
	s.conn, err = s.server.Connect(
		nats.CustomReconnectDelay(services.Backoff),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // otherwise close ends the connection
				r.lost(err)
			}
		}),
		nats.ReconnectHandler(func(conn *nats.Conn) {
			// The server has the subscription when it answers.
			for conn.FlushTimeout(startTimeout) != nil {
				if !conn.IsConnected() {
					return // this handler is called again
				}
			}
			r.back()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			r.log.Warn("notifications of shared poll keys are lost", "key", section, "error", err)
		}),
	)
	if err != nil {
		return underneath("nats", err)
	}
	subscription, err := s.conn.Subscribe(r.name, func(m *nats.Msg) { r.take(m.Data) })
	if err == nil {
		err = subscription.SetPendingLimits(maxWaiting, maxWaitingBytes)
	}
	if err == nil {
		err = s.conn.FlushWithContext(ctx)
	}
	if err == nil {
		err = s.conn.LastError() // a refusal comes before the answer to the flush
	}
	if errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrBadSubject) {
		return services.Blame("channel", err)
	}
	return err
}

func (s *natsSource) close() {
	if s.conn != nil {
		s.conn.Close()
		<-s.closed
	}
}
