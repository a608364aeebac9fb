// Package jetstream consumes a stream of NATS JetStream by a durable consumer.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	startTimeout = 10 * time.Second
	ackWait      = 30 * time.Second
	heartbeat    = 5 * time.Second
	maxPull      = 512
	// healthy: a consumer that has worked so long is forgiven its failures.
	healthy = 30 * time.Second
	// stopTime bounds how long acknowledgements are sent after the last message.
	stopTime = 5 * time.Second
)

// Source is a queues.Source.
type Source struct {
	cfg        *config.JetStreamConsumer
	deadLetter string // a subject
	server     services.NATS
	conn       *nats.Conn
	js         jetstream.JetStream
	consumer   jetstream.Consumer
	closed     chan struct{} // closed when conn is
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) {
	server, err := services.NATSOf(&c.NATSJetStream.NATSServer)
	if err != nil {
		return nil, err
	}
	return &Source{cfg: &c.NATSJetStream, deadLetter: c.DeadLetter, server: server, closed: make(chan struct{})}, nil
}

// Connect implements queues.Source.
func (s *Source) Connect(ctx context.Context) (err error) {
	if s.conn, err = s.server.Connect(nats.ReconnectBufSize(-1), nats.ClosedHandler(func(*nats.Conn) { close(s.closed) })); err != nil {
		return err
	}
	if s.js, err = jetstream.New(s.conn); err != nil {
		return err
	}
	err = s.attach(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return services.Blame("stream_name", err)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return services.Blame("durable_consumer_name", err)
	}
	return err
}

// Probe implements queues.Source: it looks for the stream, and for the consumer if it must exist.
func (s *Source) Probe(ctx context.Context) error {
	conn, err := s.server.Connect(nats.NoReconnect())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.Stream(ctx, s.cfg.StreamName); err != nil {
		return services.Blame("stream_name", fmt.Errorf("stream %s: %w", s.cfg.StreamName, err))
	}
	if !s.cfg.UseExistingConsumer {
		return nil
	}
	if _, err := js.Consumer(ctx, s.cfg.StreamName, s.cfg.DurableConsumerName); err != nil {
		return services.Blame("durable_consumer_name", fmt.Errorf("consumer %s of stream %s: %w", s.cfg.DurableConsumerName, s.cfg.StreamName, err))
	}
	return nil
}

func (s *Source) attach(ctx context.Context) (err error) {
	ctx, cancel := services.Bound(ctx, startTimeout)
	defer cancel()
	if s.cfg.UseExistingConsumer {
		s.consumer, err = s.js.Consumer(ctx, s.cfg.StreamName, s.cfg.DurableConsumerName)
	} else {
		policy := jetstream.DeliverNewPolicy
		if s.cfg.DeliverPolicy == "all" {
			policy = jetstream.DeliverAllPolicy
		}
		s.consumer, err = s.js.CreateOrUpdateConsumer(ctx, s.cfg.StreamName, jetstream.ConsumerConfig{
			Durable: s.cfg.DurableConsumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, DeliverPolicy: policy,
			FilterSubjects: s.cfg.Subjects, MaxAckPending: s.cfg.MaxAckPending,
		})
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", s.cfg.DurableConsumerName, s.cfg.StreamName, err)
	}
	return nil
}

// Close implements queues.Source.
func (s *Source) Close() {
	if s.conn != nil {
		s.conn.Close()
		<-s.closed
	}
}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var outage logging.Outage
	what := "consumer " + s.cfg.DurableConsumerName
	for ctx.Err() == nil {
		begin := time.Now()
		err := s.consume(ctx, work, p)
		if ctx.Err() != nil {
			break
		}
		if time.Since(begin) >= healthy {
			outage = logging.Outage{}
		}
		for err != nil && services.Sleep(ctx, p.Failed(&outage, what, err)) {
			err = s.attach(ctx)
		}
		p.Works(&outage, what)
	}
	return s.conn.FlushTimeout(stopTime) // or acknowledgements may be lost, which repeats messages
}

func (s *Source) consume(ctx, work context.Context, p *queues.Processor) error {
	incoming := make(chan jetstream.Msg, maxPull)
	broken := make(chan error, 1)
	stopped := make(chan struct{}) // no goroutine reads incoming any more
	subscription, err := s.consumer.Consume(func(m jetstream.Msg) {
		select {
		case incoming <- m:
		case <-stopped:
			_ = m.Nak() // another node gets it at once, and otherwise later
		}
	}, jetstream.PullMaxMessages(maxPull), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if ends(err) {
				select {
				case broken <- err:
				default:
				}
			}
		}))
	if err != nil {
		return err
	}
	defer func() {
		close(stopped)
		if ctx.Err() == nil {
			subscription.Stop()
		} else {
			subscription.Drain() // or messages on their way here would come again only after ackWait
		}
		<-subscription.Closed()
		for len(incoming) > 0 {
			_ = (<-incoming).Nak()
		}
	}()
	var batch []jetstream.Msg
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return err
		case m := <-incoming:
			batch = append(batch[:0], m)
			for len(incoming) > 0 {
				batch = append(batch, <-incoming)
			}
			s.process(work, p, batch)
		}
	}
}

func ends(err error) bool {
	for _, e := range []error{
		jetstream.ErrNoHeartbeat, jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound, jetstream.ErrStreamNotFound,
		jetstream.ErrConsumerLeadershipChanged, nats.ErrNoResponders, nats.ErrConnectionClosed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// process acknowledges the messages that are done. The others come again after a pause that grows with each delivery.
func (s *Source) process(work context.Context, p *queues.Processor, batch []jetstream.Msg) {
	messages := make([]*queues.Message, len(batch))
	deliveries := make([]int, len(batch))
	for i, m := range batch {
		messages[i] = &queues.Message{ID: m.Subject(), Payload: m.Data()}
		if meta, err := m.Metadata(); err == nil {
			messages[i].ID = strconv.FormatUint(meta.Sequence.Stream, 10)
			deliveries[i] = int(min(meta.NumDelivered, 10))
			if i == len(batch)-1 {
				p.Meter().Lag(s.cfg.StreamName, int64(meta.NumPending))
			}
		}
		for key, values := range m.Headers() {
			for _, v := range values {
				messages[i].Attributes = append(messages[i].Attributes, queues.Attribute{Key: key, Value: v})
			}
		}
		if values := m.Headers()[s.cfg.MethodHeader]; len(values) > 0 {
			messages[i].Method = values[0]
		}
	}
	p.Process(work, messages)
	for i, m := range batch {
		var err error
		if messages[i].Outcome == queues.Done {
			err = m.Ack()
		} else {
			err = m.NakWithDelay(services.Backoff(deliveries[i]))
		}
		if err != nil {
			p.Meter().Failed()
			p.Log().Error("message cannot be acknowledged, it will come again", "message", messages[i].ID, "error", err)
		}
	}
}

// KeepDeadLetter implements queues.Source.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	letter := nats.NewMsg(s.deadLetter)
	letter.Data = m.Payload
	for _, a := range m.Attributes {
		letter.Header[a.Key] = append(letter.Header[a.Key], a.Value)
	}
	letter.Header.Set("gyro-message", s.cfg.StreamName+" "+m.ID)
	letter.Header.Set("gyro-reason", reason.Error())
	_, err := s.js.PublishMsg(ctx, letter)
	return err
}
