// Package sources makes the consumers of a configuration from the sources of the packages beside it, and
// runs them.
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

// Consumers run the sources of the configuration's section consumers. Connect comes first, then Run, and Shutdown last.
type Consumers struct {
	list    []*consumer
	idle    bool               // the sources are connected and do not run
	stop    context.CancelFunc // sources begin nothing new
	abort   context.CancelFunc // sources have no time left
	running sync.WaitGroup
}

type consumer struct {
	key       string
	source    queues.Source
	processor *queues.Processor
}

// built is a source with the settings of its processor.
type built struct {
	source     queues.Source
	deadLetter func(context.Context, *queues.Message, error) error
	mode       *config.PublicationDataMode
	ordered    bool
}

// consumerKey names a consumer in messages.
func consumerKey(i int, c *config.Consumer) string {
	return config.Element("consumers", i, c.Name)
}

// buildSource makes the source of a consumer; it connects to nothing. Errors name the key.
func buildSource(key string, c *config.Consumer) (b built, err error) {
	key += "." + c.Type
	switch c.Type {
	case config.TypePostgreSQL:
		b, err = buildPostgres(key, c)
	case config.TypeKafka:
		b, err = buildKafka(key, c)
	case config.TypeRedisStream:
		b, err = buildRedis(key, c)
	case config.TypeNATSJetStream:
		b, err = buildJetStream(key, c)
	case config.TypeGooglePubSub:
		b, err = buildPubSub(key, c)
	case config.TypeAWSSQS:
		b, err = buildSQS(key, c)
	case config.TypeAzureServiceBus:
		b, err = buildServiceBus(key, c)
	default:
		err = fmt.Errorf("%s: unknown type", key)
	}
	return b, err
}

func buildPostgres(key string, c *config.Consumer) (built, error) {
	o := &c.PostgreSQL
	tls, err := o.TLS.ClientConfig()
	if err != nil {
		return built{}, fmt.Errorf("%s.tls.%w", key, err)
	}
	s, err := postgres.New(postgres.Config{
		Name: c.Name, DSN: o.DSN, TLS: tls, Table: o.OutboxTableName, Partitions: o.NumPartitions, Limit: o.PartitionSelectLimit,
		PollInterval: o.PartitionPollInterval, Channel: o.NotificationChannel, ChannelDSN: o.NotificationDSN,
		TryLock: o.UseTryLock, DeadLetter: c.DeadLetter,
	})
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, ordered: true}, nil
}

func buildKafka(key string, c *config.Consumer) (built, error) {
	o := &c.Kafka
	tls, err := o.TLS.ClientConfig()
	if err != nil {
		return built{}, fmt.Errorf("%s.tls.%w", key, err)
	}
	s, err := kafka.New(kafka.Config{
		Brokers: o.Brokers, Topics: o.Topics, Group: o.ConsumerGroup, MaxPollRecords: o.MaxPollRecords,
		FetchMaxBytes: o.FetchMaxBytes, FetchMaxWait: o.FetchMaxWait, ReadUncommitted: o.FetchReadUncommitted,
		QueueSize: o.PartitionQueueMaxSize, DialTimeout: o.DialTimeout, TLS: tls,
		Mechanism: o.SASLMechanism, User: o.SASLUser, Password: o.SASLPassword, Role: o.AssumeRoleARN,
		Instance: o.InstanceID, Method: o.MethodHeader, DeadLetter: c.DeadLetter,
	})
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, mode: &o.PublicationDataMode, ordered: true}, nil
}

func buildRedis(key string, c *config.Consumer) (built, error) {
	o := &c.RedisStream
	shards, err := services.RedisShards(key, &o.Redis)
	if err != nil {
		return built{}, err
	}
	if len(shards) != 1 {
		return built{}, fmt.Errorf("%s.%s: a consumer has one shard, not %d", key, services.AddressKey(&o.Redis), len(shards))
	}
	s, err := redisstream.New(redisstream.Config{
		Redis: shards[0], AddressOption: services.AddressKey(&o.Redis), Streams: o.Streams, Group: o.ConsumerGroup, VisibilityTimeout: o.VisibilityTimeout,
		Workers: o.NumWorkers, Payload: o.PayloadValue, Method: o.MethodValue, DeadLetter: c.DeadLetter,
	})
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, mode: &o.PublicationDataMode}, nil
}

func buildJetStream(key string, c *config.Consumer) (built, error) {
	o := &c.NATSJetStream
	server, err := services.NATSOf(key, &o.NATSServer)
	if err != nil {
		return built{}, err
	}
	s, err := jetstream.New(jetstream.Config{
		Server: server, Stream: o.StreamName, Durable: o.DurableConsumerName, Existing: o.UseExistingConsumer, Subjects: o.Subjects,
		DeliverAll: o.DeliverPolicy == "all", MaxAckPending: o.MaxAckPending, Method: o.MethodHeader, DeadLetter: c.DeadLetter,
	})
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, mode: &o.PublicationDataMode}, nil
}

func buildPubSub(key string, c *config.Consumer) (built, error) {
	o := &c.GooglePubSub
	s, err := pubsub.New(pubsub.Config{
		Project: o.ProjectID, Subscriptions: o.Subscriptions, MaxMessages: o.MaxOutstandingMessages, MaxBytes: o.MaxOutstandingBytes,
		Auth: o.AuthMechanism, CredentialsFile: o.CredentialsFile, Method: o.MethodAttribute, DeadLetter: c.DeadLetter,
	})
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, mode: &o.PublicationDataMode}, nil
}

func buildSQS(key string, c *config.Consumer) (built, error) {
	o := &c.AWSSQS
	s, err := sqs.New(sqs.Config{
		Queues: o.Queues, SNSEnvelope: o.SNSEnvelope, Region: o.Region, Profile: o.CredentialsProfile, Role: o.AssumeRoleARN,
		Endpoint: o.LocalstackEndpoint, MaxMessages: o.MaxNumberOfMessages, WaitTime: o.WaitTime, VisibilityTimeout: o.VisibilityTimeout,
		Concurrency: o.MaxConcurrency, Method: o.MethodAttribute, DeadLetter: c.DeadLetter,
	})
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, mode: &o.PublicationDataMode}, nil
}

func buildServiceBus(key string, c *config.Consumer) (built, error) {
	o := &c.AzureServiceBus
	sc := servicebus.Config{
		ConnectionString: o.ConnectionString, Queues: o.Queues, Sessions: o.UseSessions, Receivers: o.MaxConcurrentCalls,
		MaxMessages: o.MaxReceiveMessages, Method: o.MethodProperty, DeadLetter: c.DeadLetter,
	}
	if o.UseAzureIdentity {
		sc.Namespace, sc.Tenant, sc.ClientID, sc.ClientSecret = o.FullyQualifiedNamespace, o.TenantID, o.ClientID, o.ClientSecret
	}
	s, err := servicebus.New(sc)
	if err != nil {
		return built{}, fmt.Errorf("%s.%w", key, err)
	}
	return built{source: s, deadLetter: s.KeepDeadLetter, mode: &o.PublicationDataMode}, nil
}

// Source is the source of a consumer, which is not connected.
type Source struct {
	queues.Source
	Key    string // of its section
	Config *config.Consumer
}

// Sources makes the sources of enabled consumers, to be probed or connected. Errors name the key.
func Sources(cfg *config.Config) ([]Source, error) {
	var list []Source
	for i := range cfg.Consumers {
		c := &cfg.Consumers[i]
		if !c.Enabled {
			continue
		}
		key := consumerKey(i, c)
		b, err := buildSource(key, c)
		if err != nil {
			return nil, err
		}
		list = append(list, Source{b.source, key + "." + c.Type, c})
	}
	return list, nil
}

// Config of Consumers.
type Config struct {
	List     []config.Consumer
	Executor *api.Executor
	Commands api.Observer // nil: commands are not counted
	Meter    func(name string) queues.Meter
	Tracer   func(c *config.Consumer) queues.Tracer // nil: messages are not traced
	Logger   *slog.Logger
}

// New makes the enabled consumers; they connect to nothing yet. The error has a line for each mistake, which names the key.
func New(cfg Config) (*Consumers, error) {
	s := &Consumers{stop: func() {}, abort: func() {}}
	var mistakes []error
	for i := range cfg.List {
		c := &cfg.List[i]
		if !c.Enabled {
			cfg.Logger.Info("consumer is not enabled", "consumer", c.Name)
			continue
		}
		key := consumerKey(i, c)
		b, err := buildSource(key, c)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		if c.DeadLetter == "" {
			b.deadLetter = nil
		}
		pc := queues.Config{
			Name: c.Name, Executor: cfg.Executor, Commands: cfg.Commands, Meter: cfg.Meter(c.Name), Mode: dataMode(b.mode),
			Ordered: b.ordered, RetryTime: c.RetryTime, DeadLetter: b.deadLetter, Logger: cfg.Logger,
		}
		if cfg.Tracer != nil {
			pc.Tracer = cfg.Tracer(c)
		}
		s.list = append(s.list, &consumer{key: key + "." + c.Type, source: b.source, processor: queues.NewProcessor(pc)})
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return s, nil
}

func dataMode(m *config.PublicationDataMode) *queues.DataMode {
	if m == nil || !m.Enabled {
		return nil
	}
	return &queues.DataMode{
		Channels: m.Channels, IdempotencyKey: m.IdempotencyKey, Delta: m.Delta, Version: m.Version,
		VersionEpoch: m.VersionEpoch, TagsPrefix: m.TagsPrefix,
	}
}

// Connect connects all sources, or none.
func (s *Consumers) Connect(ctx context.Context) error {
	for i, c := range s.list {
		if err := c.source.Connect(ctx); err != nil {
			closeAll(s.list[:i+1])
			if _, named := errors.AsType[*services.OptionError](err); named {
				return fmt.Errorf("%s.%w", c.key, err)
			}
			return fmt.Errorf("%s: %w", c.key, err)
		}
	}
	s.idle = true
	return nil
}

func closeAll(list []*consumer) {
	for _, c := range list {
		c.source.Close()
	}
}

// Run runs the sources. It calls failed for a source that cannot go on.
func (s *Consumers) Run(failed chan<- error) {
	s.idle = false
	var ctx, work context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	work, s.abort = context.WithCancel(context.Background())
	for _, c := range s.list {
		s.running.Go(func() {
			defer c.source.Close()
			if err := c.source.Run(ctx, work, c.processor); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("%s: %w", c.key, err)
			}
		})
	}
}

// Shutdown lets the sources finish their work. When ctx ends before, it cuts them off. It may be called again, and
// without Connect or Run.
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
