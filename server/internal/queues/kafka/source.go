// Package kafka consumes topics of Kafka as a member of a consumer group.
package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	defaultQueueSize   = 1000
	defaultDialTimeout = 3 * time.Second
	tlsDialTimeout     = 10 * time.Second
	commitTime         = 5 * time.Second
	roleSession        = "centrifugo-msk"
)

// Source is a queues.Source. Messages wait for earlier messages in their partition.
type Source struct {
	cfg        config.KafkaConsumer // with the defaults of zero values
	deadLetter string               // a topic
	tls        *tls.Config          // nil: none
	options    []kgo.Opt

	mu      sync.Mutex
	client  *kgo.Client // nil: none now
	workers map[partition]*worker
}

type partition struct {
	topic  string
	number int32
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) {
	s := &Source{cfg: c.Kafka, deadLetter: c.DeadLetter, workers: make(map[partition]*worker)}
	switch size := &s.cfg.PartitionQueueMaxSize; {
	case *size == 0:
		*size = defaultQueueSize
	case *size < 0:
		*size = 1
	}
	if s.cfg.DialTimeout <= 0 {
		s.cfg.DialTimeout = defaultDialTimeout
	}
	var err error
	if s.tls, err = s.cfg.TLS.ClientConfig(); err != nil {
		return nil, fmt.Errorf("tls.%w", err)
	}
	s.options = []kgo.Opt{kgo.SeedBrokers(s.cfg.Brokers...), kgo.ClientID("gyro")}
	if s.tls != nil {
		s.options = append(s.options, kgo.DialTLSConfig(s.tls), kgo.DialTimeout(tlsDialTimeout))
	} else {
		s.options = append(s.options, kgo.DialTimeout(s.cfg.DialTimeout))
	}
	mechanism, err := mechanism(&s.cfg)
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		s.options = append(s.options, kgo.SASL(mechanism))
	}
	return s, nil
}

func mechanism(c *config.KafkaConsumer) (sasl.Mechanism, error) {
	switch c.SASLMechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Auth{User: c.SASLUser, Pass: c.SASLPassword}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: c.SASLUser, Pass: c.SASLPassword}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: c.SASLUser, Pass: c.SASLPassword}.AsSha512Mechanism(), nil
	case "aws-msk-iam":
		if c.AssumeRoleARN != "" {
			return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) { return assumeRole(ctx, c.AssumeRoleARN) }), nil
		}
		return aws.Auth{AccessKey: c.SASLUser, SecretKey: c.SASLPassword}.AsManagedStreamingIAMMechanism(), nil
	}
	return nil, fmt.Errorf("sasl_mechanism: %.100q is unknown", c.SASLMechanism)
}

func assumeRole(ctx context.Context, arn string) (aws.Auth, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithAppID("gyro"))
	if err != nil {
		return aws.Auth{}, fmt.Errorf("assume_role_arn: %w", err)
	}
	role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), arn, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = roleSession
	})
	got, err := role.Retrieve(ctx)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("assume_role_arn: %w", err)
	}
	return aws.Auth{AccessKey: got.AccessKeyID, SecretKey: got.SecretAccessKey, SessionToken: got.SessionToken}, nil
}

// Connect implements queues.Source.
func (s *Source) Connect(ctx context.Context) error {
	client, err := kgo.NewClient(s.options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.DialTimeout*time.Duration(len(s.cfg.Brokers)))
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return services.Blame(s.optionFor(err), fmt.Errorf("brokers %s: %w", strings.Join(s.cfg.Brokers, ", "), err))
	}
	return nil
}

// Probe implements queues.Source: it connects, and looks for the topics.
func (s *Source) Probe(ctx context.Context) error {
	client, err := kgo.NewClient(s.options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return services.Blame(s.optionFor(err), fmt.Errorf("brokers %s: %w", strings.Join(s.cfg.Brokers, ", "), err))
	}
	req := kmsg.NewPtrMetadataRequest() // it makes no topic
	for _, name := range s.cfg.Topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range res.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return services.Blame("topics", fmt.Errorf("%s: %w", *topic.Topic, err))
		}
	}
	return nil
}

func (s *Source) optionFor(err error) string {
	if option := services.TLSOption("tls", err); option != "" {
		return option
	}
	switch text := err.Error(); {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "sasl_user, sasl_password"
	case errors.Is(err, kerr.UnsupportedSaslMechanism), strings.Contains(text, "is SASL missing?"):
		return "sasl_mechanism"
	case strings.Contains(text, "is TLS missing?"), strings.Contains(text, "tls alert record"):
		return "tls.enabled"
	}
	options := "brokers"
	if s.cfg.SASLMechanism != "" {
		options += ", sasl_user, sasl_password"
	}
	return cmp.Or(services.CutOff(options, s.tls != nil, err), "brokers")
}

// Close implements queues.Source.
func (*Source) Close() {}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var outage logging.Outage
	const what = "consuming topics"
	for ctx.Err() == nil {
		err := s.consume(ctx, work, p, func() { p.Works(&outage, what) })
		if ctx.Err() == nil {
			services.Sleep(ctx, p.Failed(&outage, what, err))
		}
	}
	return nil
}

func (s *Source) group(work context.Context, p *queues.Processor) []kgo.Opt {
	isolation := kgo.ReadCommitted()
	if s.cfg.FetchReadUncommitted {
		isolation = kgo.ReadUncommitted()
	}
	options := append(s.options[:len(s.options):len(s.options)],
		kgo.ConsumerGroup(s.cfg.ConsumerGroup), kgo.ConsumeTopics(s.cfg.Topics...), kgo.FetchMaxWait(s.cfg.FetchMaxWait),
		kgo.FetchIsolationLevel(isolation), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
			s.assign(work, client, p, assigned)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
			s.stop(revoked)
			if err := client.CommitMarkedOffsets(ctx); err != nil {
				p.Log().Error("offsets cannot be committed, records will be executed again", "error", err)
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { s.stop(lost) }),
	)
	if s.cfg.FetchMaxBytes > 0 {
		options = append(options, kgo.FetchMaxBytes(int32(s.cfg.FetchMaxBytes)))
	}
	if s.cfg.InstanceID != "" {
		options = append(options, kgo.InstanceID(s.cfg.InstanceID))
	}
	return options
}

// consume is a member of the group until ctx ends, or an error that the client does not get over by itself.
func (s *Source) consume(ctx, work context.Context, p *queues.Processor, works func()) error {
	client, err := kgo.NewClient(s.group(work, p)...)
	if err != nil {
		return err
	}
	s.setClient(client)
	defer func() {
		s.setClient(nil)
		s.stop(nil)
		last, cancel := context.WithTimeout(work, commitTime)
		defer cancel()
		if err := client.CommitMarkedOffsets(last); err != nil {
			p.Log().Error("offsets cannot be committed, records will be executed again", "error", err)
		}
		client.CloseAllowingRebalance()
	}()
	for {
		fetches := client.PollRecords(ctx, s.cfg.MaxPollRecords)
		if ctx.Err() != nil {
			return nil
		}
		var fatal error
		fetches.EachError(func(topic string, number int32, err error) {
			if lost := (*kgo.ErrDataLoss)(nil); errors.As(err, &lost) {
				p.Meter().Failed()
				p.Log().Error("records were lost by the broker, going on behind them", "topic", topic, "partition", number, "error", err)
				return
			}
			fatal = fmt.Errorf("topic %s, partition %d: %w", topic, number, err)
		})
		if fatal != nil {
			return fatal
		}
		works()
		s.mu.Lock()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if w := s.workers[partition{f.Topic, f.Partition}]; w != nil && len(f.Records) > 0 {
				w.add(f.Records, f.HighWatermark)
			}
		})
		s.mu.Unlock()
		client.AllowRebalance()
	}
}

func (s *Source) setClient(c *kgo.Client) {
	s.mu.Lock()
	s.client = c
	s.mu.Unlock()
}

func (s *Source) assign(work context.Context, client *kgo.Client, p *queues.Processor, assigned map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, numbers := range assigned {
		for _, n := range numbers {
			w := newWorker(s, client, p, partition{topic, n})
			s.workers[w.of] = w
			go w.run(work)
		}
	}
}

// stop stops the workers of partitions, nil for all, and waits for them.
func (s *Source) stop(partitions map[string][]int32) {
	var stopped []*worker
	s.mu.Lock()
	take := func(of partition) {
		if w := s.workers[of]; w != nil {
			delete(s.workers, of)
			stopped = append(stopped, w)
		}
	}
	if partitions == nil {
		for of := range s.workers {
			take(of)
		}
	}
	for topic, numbers := range partitions {
		for _, n := range numbers {
			take(partition{topic, n})
		}
	}
	s.mu.Unlock()
	for _, w := range stopped {
		w.cancel()
	}
	for _, w := range stopped {
		<-w.done
	}
}

// KeepDeadLetter implements queues.Source.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return errors.New("there is no connection")
	}
	r := &kgo.Record{Topic: s.deadLetter, Value: m.Payload}
	for _, a := range m.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: a.Key, Value: []byte(a.Value)})
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "gyro-message", Value: []byte(m.ID)},
		kgo.RecordHeader{Key: "gyro-reason", Value: []byte(reason.Error())})
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	return client.ProduceSync(ctx, r).FirstErr()
}
