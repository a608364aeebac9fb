package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

type receiver interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
	AbandonMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.AbandonMessageOptions) error
	Close(context.Context) error
}

type worker struct {
	*Source
	p      *queues.Processor
	queue  string
	outage logging.Outage
	failed int // batches in a row without a message that was done
}

func (w *worker) messages(ctx, work context.Context, from receiver) {
	defer w.close(work, from)
	what := "receiving from queue " + w.queue
	for ctx.Err() == nil {
		received, err := from.ReceiveMessages(ctx, w.cfg.MaxReceiveMessages, nil)
		if err == nil {
			w.p.Works(&w.outage, what)
			w.process(ctx, work, from, received)
		} else if ctx.Err() == nil {
			services.Sleep(ctx, max(pause, w.p.Failed(&w.outage, what, err)))
		}
	}
}

func (w *worker) sessions(ctx, work context.Context) {
	what := "accepting a session of queue " + w.queue
	for ctx.Err() == nil {
		accepted, err := w.client.AcceptNextSessionForQueue(ctx, w.queue, nil)
		switch {
		case err == nil:
			w.p.Works(&w.outage, what)
			w.session(ctx, work, &session{SessionReceiver: accepted})
		case ctx.Err() == nil && !isTimeout(err):
			services.Sleep(ctx, max(pause, w.p.Failed(&w.outage, what, err)))
		}
	}
}

func isTimeout(err error) bool {
	e := (*azservicebus.Error)(nil)
	return errors.As(err, &e) && e.Code == azservicebus.CodeTimeout
}

// session is a receiver whose lock one goroutine renews while another one uses it.
type session struct {
	*azservicebus.SessionReceiver
	mu sync.RWMutex // written while the end of the lock is read, or written by a renewal
}

// ReceiveMessages implements receiver.
func (s *session) ReceiveMessages(ctx context.Context, n int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.SessionReceiver.ReceiveMessages(ctx, n, o)
}

// CompleteMessage implements receiver.
func (s *session) CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.SessionReceiver.CompleteMessage(ctx, m, o)
}

// AbandonMessage implements receiver.
func (s *session) AbandonMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.AbandonMessageOptions) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.SessionReceiver.AbandonMessage(ctx, m, o)
}

func (s *session) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.RenewSessionLock(ctx, nil)
}

func (s *session) lockedUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.LockedUntil()
}

const idle = time.Second

// session consumes a session until there are fewer messages than asked for, its lock is lost, or ctx ends. With two
// requests at a time, the client would return messages that come between them out of order.
func (w *worker) session(ctx, work context.Context, from *session) {
	ctx, cancel := context.WithCancel(ctx)
	locked, lose := context.WithCancel(work)
	defer lose()
	var renewing sync.WaitGroup
	renewing.Go(func() {
		if !w.keepLock(ctx, from) {
			lose()
			cancel()
		}
	})
	defer w.close(work, from)
	defer renewing.Wait()
	defer cancel()
	for ctx.Err() == nil {
		waiting, enough := context.WithTimeout(ctx, idle)
		received, err := from.ReceiveMessages(waiting, w.cfg.MaxReceiveMessages, nil)
		empty := waiting.Err() != nil
		enough()
		if err != nil && !empty {
			w.p.Meter().Failed()
			w.p.Log().Error("receiving from a session failed", "queue", w.queue, "session", from.SessionID(), "error", err)
			services.Sleep(ctx, pause)
		}
		if len(received) > 0 {
			w.process(ctx, locked, from, received)
		}
		if len(received) < w.cfg.MaxReceiveMessages {
			return
		}
	}
}

// keepLock returns false if the lock is lost: others have the messages then.
func (w *worker) keepLock(ctx context.Context, from *session) bool {
	for services.Sleep(ctx, time.Until(from.lockedUntil())*2/3) {
		err := from.renew(ctx)
		if err == nil && !from.lockedUntil().After(time.Now()) {
			err = errors.New("it has expired already")
		}
		if err != nil && ctx.Err() == nil {
			w.p.Meter().Failed()
			w.p.Log().Error("the lock of a session cannot be renewed", "queue", w.queue, "session", from.SessionID(), "error", err)
			return false
		}
	}
	return true
}

func (w *worker) process(ctx, work context.Context, from receiver, received []*azservicebus.ReceivedMessage) {
	messages := make([]*queues.Message, len(received))
	for i, r := range received {
		messages[i] = w.message(r)
	}
	w.p.Try(ctx, work, messages, retries)
	settling, cancel := context.WithTimeout(work, settleTime)
	defer cancel()
	var running sync.WaitGroup
	w.failed++
	for i, m := range messages {
		if m.Outcome == queues.Done {
			w.failed = 0
		}
		running.Go(func() { w.settle(settling, from, received[i], m) })
	}
	running.Wait()
	if w.failed > 0 { // each delivery brings messages nearer to the dead letters of the service
		services.Sleep(ctx, services.Backoff(w.failed))
	}
}

func (w *worker) settle(ctx context.Context, from receiver, r *azservicebus.ReceivedMessage, m *queues.Message) {
	var err error
	if m.Outcome == queues.Done {
		err = from.CompleteMessage(ctx, r, nil)
	} else {
		err = from.AbandonMessage(ctx, r, nil)
	}
	if err != nil {
		w.p.Meter().Failed()
		w.p.Log().Error("message cannot be settled, it will come again", "message", m.ID, "error", err)
	}
}

func (w *worker) message(r *azservicebus.ReceivedMessage) *queues.Message {
	m := &queues.Message{ID: w.queue + "/" + r.MessageID, Payload: r.Body}
	if r.SequenceNumber != nil {
		m.ID = fmt.Sprintf("%s/%d", w.queue, *r.SequenceNumber)
	}
	if w.cfg.UseSessions && r.SessionID != nil {
		m.Group = w.queue + "/" + *r.SessionID
	}
	for key, value := range r.ApplicationProperties {
		if text, ok := value.(string); ok {
			m.Attributes = append(m.Attributes, queues.Attribute{Key: key, Value: text})
			if key == w.cfg.MethodProperty {
				m.Method = text
			}
		}
	}
	return m
}

func (w *worker) close(work context.Context, from receiver) {
	ctx, cancel := context.WithTimeout(work, settleTime)
	defer cancel()
	_ = from.Close(ctx)
}
