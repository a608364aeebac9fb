// Package servicebus consumes queues of Azure Service Bus.
package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	retries    = 5
	pause      = time.Second
	retryDelay = 100 * time.Millisecond
	settleTime = 10 * time.Second
)

// Source is a queues.Source.
type Source struct {
	cfg    *config.AzureConsumer
	client *azservicebus.Client
	dead   *azservicebus.Sender // nil: none
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) { return newSource(c, nil, nil) }

func newSource(c *config.Consumer, options *azservicebus.ClientOptions, identity *azidentity.ClientSecretCredentialOptions) (s *Source, err error) {
	if options == nil {
		options = new(azservicebus.ClientOptions)
	}
	// Workers repeat failed calls. The one retry is for a connection that broke while it was not used.
	options.RetryOptions = azservicebus.RetryOptions{MaxRetries: 1, RetryDelay: retryDelay, MaxRetryDelay: pause}
	s = &Source{cfg: &c.AzureServiceBus}
	if !s.cfg.UseAzureIdentity {
		if s.client, err = azservicebus.NewClientFromConnectionString(s.cfg.ConnectionString, options); err != nil {
			return nil, fmt.Errorf("connection_string: %w", err)
		}
	} else {
		credential, err := azidentity.NewClientSecretCredential(s.cfg.TenantID, s.cfg.ClientID, s.cfg.ClientSecret, identity)
		if err != nil {
			return nil, fmt.Errorf("tenant_id: %w", err)
		}
		if s.client, err = azservicebus.NewClient(s.cfg.FullyQualifiedNamespace, credential, options); err != nil {
			return nil, fmt.Errorf("fully_qualified_namespace: %w", err)
		}
	}
	if c.DeadLetter != "" {
		s.dead, err = s.client.NewSender(c.DeadLetter, nil)
	}
	return s, err
}

// Connect implements queues.Source. Connections are made by Run.
func (*Source) Connect(context.Context) error { return nil }

// Probe implements queues.Source: it peeks at a message of each queue.
func (s *Source) Probe(ctx context.Context) error {
	defer s.Close()
	for _, queue := range s.cfg.Queues {
		if err := s.peek(ctx, queue); err != nil {
			return services.Blame(s.optionFor(err), fmt.Errorf("queue %s: %w", queue, err))
		}
	}
	return nil
}

func (s *Source) peek(ctx context.Context, queue string) error {
	r, err := s.client.NewReceiverForQueue(queue, nil)
	if err != nil {
		return err
	}
	defer r.Close(ctx) //nolint:errcheck // the client is closed with it
	_, err = r.PeekMessages(ctx, 1, nil)
	return err
}

func (s *Source) optionFor(err error) string {
	if refused, ok := errors.AsType[*azservicebus.Error](err); ok && refused.Code == azservicebus.CodeNotFound {
		return "queues"
	}
	if !s.cfg.UseAzureIdentity {
		return "connection_string"
	}
	return "fully_qualified_namespace, tenant_id, client_id, client_secret"
}

// Close implements queues.Source.
func (s *Source) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	_ = s.client.Close(ctx)
}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var runs []func()
	for _, queue := range s.cfg.Queues {
		for range s.cfg.MaxConcurrentCalls {
			w := &worker{Source: s, p: p, queue: queue}
			if s.cfg.UseSessions {
				runs = append(runs, func() { w.sessions(ctx, work) })
				continue
			}
			r, err := s.client.NewReceiverForQueue(queue, nil)
			if err != nil {
				return err
			}
			runs = append(runs, func() { w.messages(ctx, work, r) })
		}
	}
	var running sync.WaitGroup
	for _, run := range runs {
		running.Go(run)
	}
	running.Wait()
	return nil
}

// KeepDeadLetter implements queues.Source.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	letter := &azservicebus.Message{Body: m.Payload, ApplicationProperties: make(map[string]any)}
	for _, a := range m.Attributes {
		letter.ApplicationProperties[a.Key] = a.Value
	}
	letter.ApplicationProperties["gyro-message"], letter.ApplicationProperties["gyro-reason"] = m.ID, reason.Error()
	if m.Group != "" {
		letter.SessionID = &m.Group
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	return s.dead.SendMessage(ctx, letter, nil)
}
