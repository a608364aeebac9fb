package config

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
)

// require is a key that a consumer needs, and whether its value is right.
type require struct {
	key string
	ok  bool
}

func (c *Config) checkConsumers(p *problem.List) {
	seen := map[string]bool{}
	for i := range c.Consumers {
		n := &c.Consumers[i]
		key := Element("consumers", i, n.Name)
		checkName(p, key, n.Name, consumerPattern, seen)
		if n.Type == "" {
			p.Add(key+".type", "is required")
		}
		if !n.Enabled {
			continue
		}
		rules, mode := n.rules()
		for _, r := range rules {
			if !r.ok {
				p.Add(key+"."+n.Type+"."+r.key, "is required, or has a value that does not fit")
			}
		}
		if n.Type == TypeRedisStream {
			n.RedisStream.Check(p, key+"."+n.Type)
		}
		if mode != nil && mode.Enabled && mode.Channels == "" {
			p.Add(key+"."+n.Type+".publication_data_mode", "the name of what holds the channels is required")
		}
	}
}

// rules returns the requirements of the consumer's type.
func (n *Consumer) rules() ([]require, *PublicationDataMode) {
	switch n.Type {
	case TypePostgreSQL:
		o := &n.PostgreSQL
		return []require{
			{"dsn", o.DSN != ""}, {"outbox_table_name", o.OutboxTableName != ""},
			{"num_partitions", o.NumPartitions > 0 && o.NumPartitions <= 4096},
			{"partition_select_limit", o.PartitionSelectLimit > 0 && o.PartitionSelectLimit <= 100_000},
			{"partition_poll_interval", o.PartitionPollInterval > 0},
		}, nil
	case TypeKafka:
		o := &n.Kafka
		return []require{
			{"brokers", len(o.Brokers) > 0}, {"topics", len(o.Topics) > 0}, {"consumer_group", o.ConsumerGroup != ""},
			{"max_poll_records", o.MaxPollRecords > 0}, {"partition_queue_max_size", o.PartitionQueueMaxSize >= -1},
			{"fetch_max_bytes", o.FetchMaxBytes >= 0 && o.FetchMaxBytes <= 1<<30},
			{"assume_role_arn", o.AssumeRoleARN == "" || o.SASLMechanism == "aws-msk-iam"},
		}, &o.PublicationDataMode
	case TypeNATSJetStream:
		o := &n.NATSJetStream
		return []require{
			{"url", o.URL != ""}, {"stream_name", o.StreamName != ""}, {"durable_consumer_name", o.DurableConsumerName != ""},
			{"deliver_policy", o.UseExistingConsumer || o.DeliverPolicy == "new" || o.DeliverPolicy == "all"},
			{"max_ack_pending", o.UseExistingConsumer || o.MaxAckPending > 0},
		}, &o.PublicationDataMode
	case TypeRedisStream:
		o := &n.RedisStream
		return []require{
			{"streams", len(o.Streams) > 0}, {"consumer_group", o.ConsumerGroup != ""}, {"payload_value", o.PayloadValue != ""},
			{"visibility_timeout", o.VisibilityTimeout >= time.Second}, {"num_workers", o.NumWorkers > 0 && o.NumWorkers <= 1024},
			{"address", len(o.Address) == 1 || len(o.ClusterAddress)+len(o.SentinelAddress) == 1},
		}, &o.PublicationDataMode
	case TypeGooglePubSub:
		o := &n.GooglePubSub
		return []require{{"project_id", o.ProjectID != ""}, {"subscriptions", len(o.Subscriptions) > 0}}, &o.PublicationDataMode
	case TypeAWSSQS:
		o := &n.AWSSQS
		return []require{{"queues", len(o.Queues) > 0}}, &o.PublicationDataMode
	case TypeAzureServiceBus:
		o := &n.AzureServiceBus
		identity := o.FullyQualifiedNamespace != "" && o.TenantID != "" && o.ClientID != "" && o.ClientSecret != ""
		return []require{
			{"queues", len(o.Queues) > 0},
			{"connection_string", o.UseAzureIdentity || o.ConnectionString != ""},
			{"use_azure_identity", !o.UseAzureIdentity || identity},
		}, &o.PublicationDataMode
	}
	return nil, nil
}
