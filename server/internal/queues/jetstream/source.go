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

	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

// Config of a Source.
type Config struct {
	Server services.NATS
	// Stream and Durable name the stream and the consumer of it that all nodes share. Both are
	// required.
	Stream, Durable string
	// Existing attaches to a consumer that exists. Otherwise the source makes one, or changes it,
	// with the fields below.
	Existing      bool
	Subjects      []string
	DeliverAll    bool // not only messages that come after the consumer was made
	MaxAckPending int
	// Method is the header with the API method.
	Method string
	// DeadLetter is the subject that takes messages which were given up; empty: none.
	DeadLetter string
}

const (
	startTimeout = 10 * time.Second
	ackWait      = 30 * time.Second
	heartbeat    = 5 * time.Second
	// maxPull is the most messages that wait in this process.
	maxPull = 512
	// healthy is how long a consumer has to work until its failures are forgotten.
	healthy = 30 * time.Second
	// stopTime bounds how long acknowledgements are sent after the last message.
	stopTime = 5 * time.Second
)

// Source is a queues.Source.
type Source struct {
	cfg      Config
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	closed   chan struct{} // closed when conn is
}

// New returns a source. Errors name the option.
func New(c Config) (*Source, error) {
	return &Source{cfg: c, closed: make(chan struct{})}, nil
}

// Connect implements queues.Source.
func (s *Source) Connect(ctx context.Context) (err error) {
	if s.conn, err = s.cfg.Server.Connect(nats.ReconnectBufSize(-1), nats.ClosedHandler(func(*nats.Conn) { close(s.closed) })); err != nil {
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
	conn, err := s.cfg.Server.Connect(nats.NoReconnect())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.Stream(ctx, s.cfg.Stream); err != nil {
		return services.Blame("stream_name", fmt.Errorf("stream %s: %w", s.cfg.Stream, err))
	}
	if !s.cfg.Existing {
		return nil
	}
	if _, err := js.Consumer(ctx, s.cfg.Stream, s.cfg.Durable); err != nil {
		return services.Blame("durable_consumer_name", fmt.Errorf("consumer %s of stream %s: %w", s.cfg.Durable, s.cfg.Stream, err))
	}
	return nil
}

// attach finds the consumer, or makes it.
func (s *Source) attach(ctx context.Context) (err error) {
	ctx, cancel := services.Bound(ctx, startTimeout)
	defer cancel()
	if s.cfg.Existing {
		s.consumer, err = s.js.Consumer(ctx, s.cfg.Stream, s.cfg.Durable)
	} else {
		policy := jetstream.DeliverNewPolicy
		if s.cfg.DeliverAll {
			policy = jetstream.DeliverAllPolicy
		}
		s.consumer, err = s.js.CreateOrUpdateConsumer(ctx, s.cfg.Stream, jetstream.ConsumerConfig{
			Durable: s.cfg.Durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, DeliverPolicy: policy,
			FilterSubjects: s.cfg.Subjects, MaxAckPending: s.cfg.MaxAckPending,
		})
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", s.cfg.Durable, s.cfg.Stream, err)
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
	var outage queues.Outage
	what := "consumer " + s.cfg.Durable
	for ctx.Err() == nil {
		begin := time.Now()
		err := s.consume(ctx, work, p)
		if ctx.Err() != nil {
			break
		}
		if time.Since(begin) >= healthy {
			outage = queues.Outage{}
		}
		for err != nil && services.Sleep(ctx, outage.Failed(p, what, err)) {
			err = s.attach(ctx)
		}
		outage.Over(p, what)
	}
	return s.conn.FlushTimeout(stopTime) // or acknowledgements may be lost, which repeats messages
}

// consume handles messages until ctx ends or the consumer does not work any more.
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

// ends tells whether an error ends the attachment of a consumer, so that it must be attached again.
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

// process executes messages and acknowledges the messages that are done. The others come again after a pause that grows
// with each delivery.
func (s *Source) process(work context.Context, p *queues.Processor, batch []jetstream.Msg) {
	messages := make([]*queues.Message, len(batch))
	deliveries := make([]int, len(batch))
	for i, m := range batch {
		messages[i] = &queues.Message{ID: m.Subject(), Payload: m.Data()}
		if meta, err := m.Metadata(); err == nil {
			messages[i].ID = strconv.FormatUint(meta.Sequence.Stream, 10)
			deliveries[i] = int(min(meta.NumDelivered, 10))
			if i == len(batch)-1 {
				p.Meter().Lag(s.cfg.Stream, int64(meta.NumPending))
			}
		}
		for key, values := range m.Headers() {
			for _, v := range values {
				messages[i].Attributes = append(messages[i].Attributes, queues.Attribute{Key: key, Value: v})
			}
		}
		if values := m.Headers()[s.cfg.Method]; len(values) > 0 {
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

// KeepDeadLetter publishes a message that was given up. It may be called after Connect.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	letter := nats.NewMsg(s.cfg.DeadLetter)
	letter.Data = m.Payload
	for _, a := range m.Attributes {
		letter.Header[a.Key] = append(letter.Header[a.Key], a.Value)
	}
	letter.Header.Set("gyro-message", s.cfg.Stream+" "+m.ID)
	letter.Header.Set("gyro-reason", reason.Error())
	_, err := s.js.PublishMsg(ctx, letter)
	return err
}
