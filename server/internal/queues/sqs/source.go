// Package sqs consumes queues of AWS SQS.
package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/services"
)

const (
	retries         = 3
	pause           = time.Second
	requestTime     = 15 * time.Second
	measureInterval = 30 * time.Second
	maxAttributes   = 10

	roleSession = "gyro"
)

// Source is a queues.Source.
type Source struct {
	cfg        *config.SQSConsumer
	deadLetter string // the URL of a queue
	client     *sqs.Client
}

// New returns a source. Errors name the option.
func New(c *config.Consumer) (*Source, error) {
	return &Source{cfg: &c.AWSSQS, deadLetter: c.DeadLetter}, nil
}

// Connect implements queues.Source. It reads the configuration of AWS and sends nothing.
func (s *Source) Connect(ctx context.Context) error {
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithAppID("gyro")}
	if s.cfg.Region != "" {
		options = append(options, awsconfig.WithRegion(s.cfg.Region))
	}
	if s.cfg.CredentialsProfile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(s.cfg.CredentialsProfile))
	}
	if s.cfg.LocalstackEndpoint != "" {
		options = append(options, awsconfig.WithBaseEndpoint(s.cfg.LocalstackEndpoint))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return fmt.Errorf("configuration of AWS: %w", err)
	}
	if cfg.Region == "" {
		return errors.New("region: is set neither here nor in the environment (AWS_REGION)")
	}
	if s.cfg.AssumeRoleARN != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), s.cfg.AssumeRoleARN, func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = roleSession
		})
		cfg.Credentials = aws.NewCredentialsCache(role)
	}
	s.client = sqs.NewFromConfig(cfg)
	return nil
}

// Probe implements queues.Source: it asks for an attribute of each queue.
func (s *Source) Probe(ctx context.Context) error {
	if err := s.Connect(ctx); err != nil {
		return err
	}
	for _, url := range s.cfg.Queues {
		q := &queue{Source: s, url: url}
		// An account that may receive messages need not have the right to look at the queue.
		if _, err := q.waiting(ctx); err != nil && !denied(err) {
			option := "queues"
			if refused := smithy.APIError(nil); !errors.As(err, &refused) {
				option = "" // it was not reached, or there are no credentials
			}
			if err = fmt.Errorf("queue %s: %w", url, err); option == "" {
				return err
			}
			return services.Blame(option, err)
		}
	}
	return nil
}

// Close implements queues.Source.
func (*Source) Close() {}

// Run implements queues.Source.
func (s *Source) Run(ctx, work context.Context, p *queues.Processor) error {
	var running sync.WaitGroup
	for _, url := range s.cfg.Queues {
		q := &queue{Source: s, url: url, name: path.Base(url)}
		running.Go(func() { q.consume(ctx, work, p) })
		running.Go(func() { q.measure(ctx, p) })
	}
	running.Wait()
	return nil
}

type queue struct {
	*Source
	url  string
	name string // for logs and metrics
}

func (q *queue) consume(ctx, work context.Context, p *queues.Processor) {
	var outage logging.Outage
	what := "receiving from queue " + q.name
	for ctx.Err() == nil {
		received, err := q.receive(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
		case err != nil:
			services.Sleep(ctx, max(pause, p.Failed(&outage, what, err)))
		default:
			p.Works(&outage, what)
			q.process(ctx, work, p, received)
		}
	}
}

func seconds(d time.Duration) int32 { return int32(max(d, time.Second) / time.Second) }

func (q *queue) receive(ctx context.Context) ([]types.Message, error) {
	wait := seconds(q.cfg.WaitTime)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Second+requestTime)
	defer cancel()
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: int32(q.cfg.MaxNumberOfMessages), WaitTimeSeconds: wait,
		VisibilityTimeout: seconds(q.cfg.VisibilityTimeout), MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func (q *queue) process(ctx, work context.Context, p *queues.Processor, received []types.Message) {
	messages := make([]*queues.Message, len(received))
	for i := range received {
		messages[i] = q.message(&received[i])
	}
	var running sync.WaitGroup
	for _, list := range split(messages, q.cfg.MaxConcurrency) {
		running.Go(func() { p.Try(ctx, work, list, retries) })
	}
	running.Wait()
	var done []types.DeleteMessageBatchRequestEntry
	for i, m := range messages {
		if m.Outcome == queues.Done {
			done = append(done, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: received[i].ReceiptHandle})
		}
	}
	if len(done) > 0 {
		q.remove(work, p, done)
	}
}

// split keeps messages of a group in one list.
func split(messages []*queues.Message, n int) [][]*queues.Message {
	lists := make([][]*queues.Message, min(n, len(messages)))
	groups := make(map[string]int)
	for i, m := range messages {
		to := i % len(lists)
		if m.Group != "" {
			if of, ok := groups[m.Group]; ok {
				to = of
			}
			groups[m.Group] = to
		}
		lists[to] = append(lists[to], m)
	}
	return lists
}

func (q *queue) remove(ctx context.Context, p *queues.Processor, done []types.DeleteMessageBatchRequestEntry) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	out, err := q.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: done})
	failed := len(done)
	if err == nil {
		if failed = len(out.Failed); failed == 0 {
			return
		}
		err = errors.New(aws.ToString(out.Failed[0].Code) + ": " + aws.ToString(out.Failed[0].Message))
	}
	p.Meter().Failed()
	p.Log().Error("messages cannot be deleted, they will be executed again", "queue", q.name, "messages", failed, "error", err)
}

func (q *queue) message(r *types.Message) *queues.Message {
	m := &queues.Message{
		ID: q.name + "/" + aws.ToString(r.MessageId), Payload: []byte(aws.ToString(r.Body)),
		Group: r.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
	}
	for key, value := range r.MessageAttributes {
		if value.StringValue != nil {
			m.Attributes = append(m.Attributes, queues.Attribute{Key: key, Value: *value.StringValue})
		}
	}
	m.Method = aws.ToString(r.MessageAttributes[q.cfg.MethodAttribute].StringValue)
	if q.cfg.SNSEnvelope {
		var notification struct{ Message *string }
		if err := json.Unmarshal(m.Payload, &notification); err != nil {
			m.Broken = fmt.Errorf("the body is no notification of SNS: %w", err)
		} else if notification.Message == nil {
			m.Broken = errors.New("the body is no notification of SNS: it has no Message")
		} else {
			m.Payload = []byte(*notification.Message)
		}
	}
	return m
}

func (q *queue) measure(ctx context.Context, p *queues.Processor) {
	for {
		text, err := q.waiting(ctx)
		if denied(err) {
			p.Log().Info("the lag is not measured: sqs:GetQueueAttributes is not allowed", "queue", q.name)
			return
		}
		if err == nil {
			if waiting, err := strconv.ParseInt(text, 10, 64); err == nil {
				p.Meter().Lag(q.name, waiting)
			}
		}
		if !services.Sleep(ctx, measureInterval) {
			return
		}
	}
}

func (q *queue) waiting(ctx context.Context) (string, error) {
	const name = types.QueueAttributeNameApproximateNumberOfMessages
	out, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{name}})
	if err != nil {
		return "", err
	}
	return out.Attributes[string(name)], nil
}

func denied(err error) bool {
	refused := smithy.APIError(nil)
	return errors.As(err, &refused) && strings.HasPrefix(refused.ErrorCode(), "AccessDenied")
}

// KeepDeadLetter implements queues.Source.
func (s *Source) KeepDeadLetter(ctx context.Context, m *queues.Message, reason error) error {
	text := func(s string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
	}
	attributes := map[string]types.MessageAttributeValue{"gyro-message": text(m.ID), "gyro-reason": text(reason.Error())}
	for _, a := range m.Attributes {
		if _, ours := attributes[a.Key]; !ours && a.Value != "" && len(attributes) < maxAttributes {
			attributes[a.Key] = text(a.Value)
		}
	}
	letter := &sqs.SendMessageInput{QueueUrl: &s.deadLetter, MessageBody: aws.String(string(m.Payload)), MessageAttributes: attributes}
	if strings.HasSuffix(s.deadLetter, ".fifo") {
		group := m.Group
		if group == "" {
			group = "gyro"
		}
		letter.MessageGroupId, letter.MessageDeduplicationId = &group, &m.ID
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	_, err := s.client.SendMessage(ctx, letter)
	return err
}
