// Package pubsub consumes subscriptions of Google Cloud Pub/Sub.
package pubsub

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	startTimeout = 10 * time.Second
	streams      = 10
	// ackDeadline: messages of a receiver that has vanished come again after it.
	ackDeadline = 20 * time.Second
	// healthy: a subscription that was received from so long is forgiven its failures.
	healthy                     = 30 * time.Second
	publishTime                 = 10 * time.Second
	maxAttribute, maxAttributes = 1024, 100
)

// Source is a queues.Source.
type Source struct {
	cfg        *config.PubSubConsumer
	deadLetter string // the ID of a topic
	options    []option.ClientOption
	client     *pubsub.Client
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) {
	s := &Source{cfg: &c.GooglePubSub, deadLetter: c.DeadLetter}
	if strings.EqualFold(s.cfg.AuthMechanism, "service_account") {
		s.options = append(s.options, option.WithAuthCredentialsFile(option.ServiceAccount, s.cfg.CredentialsFile))
	}
	return s, nil
}

// Connect implements queues.Source.
func (s *Source) Connect(ctx context.Context) (err error) {
	if s.client, err = pubsub.NewClient(ctx, s.cfg.ProjectID, s.options...); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	ctx, cancel := services.Bound(ctx, startTimeout)
	defer cancel()
	for _, id := range s.cfg.Subscriptions {
		_, err := s.client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{
			Subscription: "projects/" + s.cfg.ProjectID + "/subscriptions/" + id,
		})
		// An account that may receive messages need not have the right to look at the subscription.
		if err != nil && status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("subscription %s: %w", id, err)
		}
	}
	return nil
}

// Probe implements queues.Source.
func (s *Source) Probe(ctx context.Context) error {
	defer s.Close()
	return s.Connect(ctx)
}

// Close implements queues.Source.
func (s *Source) Close() {
	if s.client != nil {
		_ = s.client.Close()
	}
}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var running sync.WaitGroup
	for _, id := range s.cfg.Subscriptions {
		running.Go(func() { s.consume(ctx, work, p, id) })
	}
	running.Wait()
	return nil
}

func (s *Source) consume(ctx, work context.Context, p *queues.Processor, id string) {
	subscriber := s.client.Subscriber(id)
	subscriber.ReceiveSettings.MaxOutstandingMessages = s.cfg.MaxOutstandingMessages
	subscriber.ReceiveSettings.MaxOutstandingBytes = s.cfg.MaxOutstandingBytes
	subscriber.ReceiveSettings.NumGoroutines = streams
	subscriber.ReceiveSettings.MaxDurationPerAckExtension = ackDeadline
	var outage logging.Outage
	var failures atomic.Int32 // messages that failed in a row
	for ctx.Err() == nil {
		begin := time.Now()
		err := subscriber.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
			s.handle(ctx, work, p, id, m, &failures)
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) >= healthy {
			outage = logging.Outage{}
		}
		services.Sleep(ctx, p.Failed(&outage, "receiving from subscription "+id, err))
	}
}

func (s *Source) handle(ctx, work context.Context, p *queues.Processor, id string, received *pubsub.Message, failures *atomic.Int32) {
	if ctx.Err() != nil { // it has waited behind another one with its ordering key
		received.Nack()
		return
	}
	m := &queues.Message{ID: id + "/" + received.ID, Payload: received.Data, Method: received.Attributes[s.cfg.MethodAttribute]}
	for key, value := range received.Attributes {
		m.Attributes = append(m.Attributes, queues.Attribute{Key: key, Value: value})
	}
	p.Process(work, []*queues.Message{m})
	if m.Outcome == queues.Done {
		failures.Store(0)
		received.Ack()
		return
	}
	// Without a retry policy, the service would deliver it again at once.
	services.Sleep(ctx, services.Backoff(int(failures.Add(1))))
	received.Nack()
}

// KeepDeadLetter implements queues.Source.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	text := reason.Error()
	attributes := map[string]string{"gyro-message": m.ID, "gyro-reason": strings.ToValidUTF8(text[:min(len(text), maxAttribute)], "")}
	for _, a := range m.Attributes {
		if _, ours := attributes[a.Key]; !ours && len(attributes) < maxAttributes {
			attributes[a.Key] = a.Value
		}
	}
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	_, err := s.client.TopicAdminClient.Publish(ctx, &pubsubpb.PublishRequest{
		Topic:    "projects/" + s.cfg.ProjectID + "/topics/" + s.deadLetter,
		Messages: []*pubsubpb.PubsubMessage{{Data: m.Payload, Attributes: attributes}},
	})
	return err
}
