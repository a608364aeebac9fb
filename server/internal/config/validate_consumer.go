package config

import (
	"cmp"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
)

func (c *Config) checkConsumers(p *problem.List) {
	seen := map[string]bool{}
	for i := range c.Consumers {
		n := &c.Consumers[i]
		key := Element("consumers", i, n.Name)
		checkName(p, key, n.Name, consumerPattern, seen)
		if n.Type == "" {
			p.Add(key+".type", "is required")
		}
		if n.Enabled {
			n.check(section{p, key + "." + n.Type})
		}
	}
}

type section struct {
	*problem.List
	key string
}

func (s section) require(key string, given bool) {
	if !given {
		s.Add(s.key+"."+key, "is required")
	}
}

func between[T cmp.Ordered](s section, key string, value, least, greatest T) {
	if value < least || value > greatest {
		s.Add(s.key+"."+key, "%v is not between %v and %v", value, least, greatest)
	}
}

func atLeast[T cmp.Ordered](s section, key string, value, least T) {
	if value < least {
		s.Add(s.key+"."+key, "%v is less than %v", value, least)
	}
}

func (n *Consumer) check(s section) {
	switch n.Type {
	case TypePostgreSQL:
		n.PostgreSQL.check(s)
	case TypeKafka:
		n.Kafka.check(s)
	case TypeNATSJetStream:
		n.NATSJetStream.check(s)
	case TypeRedisStream:
		n.RedisStream.check(s)
	case TypeGooglePubSub:
		n.GooglePubSub.check(s)
	case TypeAWSSQS:
		n.AWSSQS.check(s)
	case TypeAzureServiceBus:
		n.AzureServiceBus.check(s)
	}
}

func (m *PublicationDataMode) check(s section) {
	if m.Enabled && m.Channels == "" {
		s.Add(s.key+".publication_data_mode", "the name of what holds the channels is required")
	}
}

func (o *PostgreSQLConsumer) check(s section) {
	s.require("dsn", o.DSN != "")
	s.require("outbox_table_name", o.OutboxTableName != "")
	between(s, "num_partitions", o.NumPartitions, 1, 4096)                   // each has a goroutine
	between(s, "partition_select_limit", o.PartitionSelectLimit, 1, 100_000) // rows in memory
	s.Positive(s.key+".partition_poll_interval", o.PartitionPollInterval)
}

func (o *KafkaConsumer) check(s section) {
	s.require("brokers", len(o.Brokers) > 0)
	s.require("topics", len(o.Topics) > 0)
	s.require("consumer_group", o.ConsumerGroup != "")
	atLeast(s, "max_poll_records", o.MaxPollRecords, 1)
	atLeast(s, "partition_queue_max_size", o.PartitionQueueMaxSize, -1)
	between(s, "fetch_max_bytes", o.FetchMaxBytes, 0, 1<<30)
	if o.AssumeRoleARN != "" && o.SASLMechanism != "aws-msk-iam" {
		s.Add(s.key+".assume_role_arn", "needs sasl_mechanism aws-msk-iam")
	}
	o.PublicationDataMode.check(s)
}

func (o *JetStreamConsumer) check(s section) {
	s.require("url", o.URL != "")
	s.require("stream_name", o.StreamName != "")
	s.require("durable_consumer_name", o.DurableConsumerName != "")
	if !o.UseExistingConsumer {
		if o.DeliverPolicy != "new" && o.DeliverPolicy != "all" {
			s.Add(s.key+".deliver_policy", "%s is neither new nor all", problem.Quote(o.DeliverPolicy))
		}
		atLeast(s, "max_ack_pending", o.MaxAckPending, 1)
	}
	o.PublicationDataMode.check(s)
}

func (o *RedisConsumer) check(s section) {
	s.require("streams", len(o.Streams) > 0)
	s.require("consumer_group", o.ConsumerGroup != "")
	s.require("payload_value", o.PayloadValue != "")
	atLeast(s, "visibility_timeout", o.VisibilityTimeout, time.Second)
	between(s, "num_workers", o.NumWorkers, 1, 1024)
	if list, key := o.Addresses(); len(list) != 1 {
		s.Add(s.key+"."+key, "a consumer has one address, of a server, a Cluster or Sentinels")
	}
	o.Redis.Check(s.List, s.key)
	o.PublicationDataMode.check(s)
}

func (o *PubSubConsumer) check(s section) {
	s.require("project_id", o.ProjectID != "")
	s.require("subscriptions", len(o.Subscriptions) > 0)
	atLeast(s, "max_outstanding_messages", o.MaxOutstandingMessages, 1)
	atLeast(s, "max_outstanding_bytes", o.MaxOutstandingBytes, 1)
	switch strings.ToLower(o.AuthMechanism) {
	case "", "default":
	case "service_account":
		if o.CredentialsFile == "" {
			s.Add(s.key+".credentials_file", "is required with auth_mechanism %s", o.AuthMechanism)
		}
	default:
		s.Add(s.key+".auth_mechanism", "%s is unknown", problem.Quote(o.AuthMechanism))
	}
	o.PublicationDataMode.check(s)
}

func (o *SQSConsumer) check(s section) {
	s.require("queues", len(o.Queues) > 0)
	between(s, "max_number_of_messages", o.MaxNumberOfMessages, 1, 10)
	if o.WaitTime > 20*time.Second {
		s.Add(s.key+".wait_time_time", "%v is more than %v", o.WaitTime, 20*time.Second)
	}
	if o.VisibilityTimeout > 12*time.Hour {
		s.Add(s.key+".visibility_timeout", "%v is more than %v", o.VisibilityTimeout, 12*time.Hour)
	}
	atLeast(s, "max_concurrency", o.MaxConcurrency, 1)
	o.PublicationDataMode.check(s)
}

func (o *AzureConsumer) check(s section) {
	s.require("queues", len(o.Queues) > 0)
	atLeast(s, "max_concurrent_calls", o.MaxConcurrentCalls, 1)
	between(s, "max_receive_messages", o.MaxReceiveMessages, 1, 5000) // the service lets a receiver ask for no more
	if !o.UseAzureIdentity {
		s.require("connection_string", o.ConnectionString != "")
	} else if o.FullyQualifiedNamespace == "" || o.TenantID == "" || o.ClientID == "" || o.ClientSecret == "" {
		s.Add(s.key+".use_azure_identity", "needs fully_qualified_namespace, tenant_id, client_id and client_secret")
	}
	o.PublicationDataMode.check(s)
}
