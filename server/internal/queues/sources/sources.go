// Package sources makes and runs the consumers of a configuration.
package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/jetstream"
	"github.com/gyrohq/gyro/server/internal/queues/kafka"
	"github.com/gyrohq/gyro/server/internal/queues/postgres"
	"github.com/gyrohq/gyro/server/internal/queues/pubsub"
	"github.com/gyrohq/gyro/server/internal/queues/redisstream"
	"github.com/gyrohq/gyro/server/internal/queues/servicebus"
	"github.com/gyrohq/gyro/server/internal/queues/sqs"
	"github.com/gyrohq/gyro/server/internal/services"
)

// Consumers are the enabled consumers. Connect comes first, then Run, and Shutdown last.
type Consumers struct {
	list    []*Consumer
	idle    bool               // the sources are connected and do not run
	stop    context.CancelFunc // sources begin nothing new
	abort   context.CancelFunc // sources have no time left
	running sync.WaitGroup
}

// Consumer is an enabled consumer of the configuration.
type Consumer struct {
	queues.Source // not connected
	Config        *config.Consumer
	Key           string // of its section

	of        sourceType
	processor *queues.Processor
}

type sourceType struct {
	// open makes the source; it connects to nothing. Errors name the key below the section of the type.
	open func(*config.Consumer) (queues.Source, error)
	// mode returns the section publication_data_mode; nil: the type has none.
	mode    func(*config.Consumer) *config.PublicationDataMode
	ordered bool
	// system is the name in the semantic conventions of OpenTelemetry.
	system string
}

var types = map[string]sourceType{
	config.TypePostgreSQL: {
		open: opens(postgres.New), ordered: true, system: "postgresql",
	},
	config.TypeKafka: {
		open: opens(kafka.New), ordered: true, system: "kafka",
		mode: func(c *config.Consumer) *config.PublicationDataMode { return &c.Kafka.PublicationDataMode },
	},
	config.TypeNATSJetStream: {
		open: opens(jetstream.New), system: "nats",
		mode: func(c *config.Consumer) *config.PublicationDataMode { return &c.NATSJetStream.PublicationDataMode },
	},
	config.TypeRedisStream: {
		open: opens(redisstream.New), system: "redis",
		mode: func(c *config.Consumer) *config.PublicationDataMode { return &c.RedisStream.PublicationDataMode },
	},
	config.TypeGooglePubSub: {
		open: opens(pubsub.New), system: "gcp_pubsub",
		mode: func(c *config.Consumer) *config.PublicationDataMode { return &c.GooglePubSub.PublicationDataMode },
	},
	config.TypeAWSSQS: {
		open: opens(sqs.New), system: "aws_sqs",
		mode: func(c *config.Consumer) *config.PublicationDataMode { return &c.AWSSQS.PublicationDataMode },
	},
	config.TypeAzureServiceBus: {
		open: opens(servicebus.New), system: "servicebus",
		mode: func(c *config.Consumer) *config.PublicationDataMode { return &c.AzureServiceBus.PublicationDataMode },
	},
}

func opens[S queues.Source](open func(*config.Consumer) (S, error)) func(*config.Consumer) (queues.Source, error) {
	return func(c *config.Consumer) (queues.Source, error) { return open(c) }
}

// Enabled returns the enabled consumers of a list, to be probed or connected. The error has a line for each mistake,
// which names the key.
func Enabled(list []config.Consumer) ([]*Consumer, error) {
	var enabled []*Consumer
	var mistakes []error
	for i := range list {
		c := &list[i]
		if !c.Enabled {
			continue
		}
		e := &Consumer{Config: c, Key: config.Element("consumers", i, c.Name) + "." + c.Type, of: types[c.Type]}
		if e.of.open == nil {
			mistakes = append(mistakes, fmt.Errorf("%s: unknown type", e.Key))
			continue
		}
		var err error
		if e.Source, err = e.of.open(c); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s.%w", e.Key, err))
		}
		enabled = append(enabled, e)
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return enabled, nil
}

// Config of Consumers.
type Config struct {
	List     []config.Consumer
	Executor *api.Executor
	Commands api.Observer // nil: commands are not counted
	Meter    func(name string) queues.Meter
	Tracer   func(name, system string) queues.Tracer // nil: messages are not traced
	Logger   *slog.Logger
}

// New makes the enabled consumers, and connects to nothing. The error has a line for each mistake, which names the key.
func New(cfg Config) (*Consumers, error) {
	list, err := Enabled(cfg.List)
	if err != nil {
		return nil, err
	}
	for i := range cfg.List {
		if c := &cfg.List[i]; !c.Enabled {
			cfg.Logger.Info("consumer is not enabled", "consumer", c.Name)
		}
	}
	for _, c := range list {
		pc := queues.Config{
			Name: c.Config.Name, Executor: cfg.Executor, Commands: cfg.Commands, Meter: cfg.Meter(c.Config.Name),
			Ordered: c.of.ordered, RetryTime: c.Config.RetryTime, Logger: cfg.Logger,
		}
		if c.of.mode != nil {
			pc.Mode = c.of.mode(c.Config)
		}
		if c.Config.DeadLetter != "" {
			pc.DeadLetter = c.KeepDeadLetter
		}
		if cfg.Tracer != nil {
			pc.Tracer = cfg.Tracer(c.Config.Name, c.of.system)
		}
		c.processor = queues.NewProcessor(pc)
	}
	return &Consumers{list: list, stop: func() {}, abort: func() {}}, nil
}

// Connect connects all sources, or none.
func (s *Consumers) Connect(ctx context.Context) error {
	for i, c := range s.list {
		if err := c.Connect(ctx); err != nil {
			closeAll(s.list[:i+1])
			if _, named := errors.AsType[*services.OptionError](err); named {
				return fmt.Errorf("%s.%w", c.Key, err)
			}
			return fmt.Errorf("%s: %w", c.Key, err)
		}
	}
	s.idle = true
	return nil
}

func closeAll(list []*Consumer) {
	for _, c := range list {
		c.Close()
	}
}

// Run runs the sources. A source that cannot go on sends its error to failed.
func (s *Consumers) Run(failed chan<- error) {
	s.idle = false
	var ctx, work context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	work, s.abort = context.WithCancel(context.Background())
	for _, c := range s.list {
		s.running.Go(func() {
			defer c.Close()
			if err := c.Run(ctx, work, c.processor); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("%s: %w", c.Key, err)
			}
		})
	}
}

// Shutdown lets the sources finish their work until ctx ends. It may be called again, and without Connect or Run.
func (s *Consumers) Shutdown(ctx context.Context) error {
	if s.idle {
		s.idle = false
		closeAll(s.list)
	}
	s.stop()
	release := context.AfterFunc(ctx, s.abort)
	defer release()
	s.running.Wait()
	s.abort()
	if !release() && len(s.list) > 0 {
		return ctx.Err()
	}
	return nil
}
