package config

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// Types of consumers.
const (
	TypePostgreSQL      = "postgresql"
	TypeKafka           = "kafka"
	TypeNATSJetStream   = "nats_jetstream"
	TypeRedisStream     = "redis_stream"
	TypeGooglePubSub    = "google_pub_sub"
	TypeAWSSQS          = "aws_sqs"
	TypeAzureServiceBus = "azure_service_bus"
)

// Consumer takes API commands from a queue.
type Consumer struct {
	Name            string             `key:"name" doc:"Unique name."`
	Enabled         bool               `key:"enabled"`
	Type            string             `key:"type" enum:"postgresql|kafka|nats_jetstream|redis_stream|google_pub_sub|aws_sqs|azure_service_bus" doc:"Names the object below that is used."`
	RetryTime       time.Duration      `key:"retry_time" def:"1h" min:"0" doc:"A message that fails for this long is given up; 0: never."`
	DeadLetter      string             `key:"dead_letter" doc:"Table, topic, subject, stream or queue (of SQS: its URL) of the same system that takes messages which are given up; empty: they are only logged."`
	PostgreSQL      PostgreSQLConsumer `key:"postgresql"`
	Kafka           KafkaConsumer      `key:"kafka"`
	NATSJetStream   JetStreamConsumer  `key:"nats_jetstream"`
	RedisStream     RedisConsumer      `key:"redis_stream"`
	GooglePubSub    PubSubConsumer     `key:"google_pub_sub"`
	AWSSQS          SQSConsumer        `key:"aws_sqs"`
	AzureServiceBus AzureConsumer      `key:"azure_service_bus"`
}

// PostgreSQLConsumer reads an outbox table.
type PostgreSQLConsumer struct {
	DSN                   string        `key:"dsn" opt:"secret"`
	OutboxTableName       string        `key:"outbox_table_name"`
	NumPartitions         int           `key:"num_partitions" def:"1"`
	PartitionSelectLimit  int           `key:"partition_select_limit" def:"100" doc:"Rows per poll and partition."`
	PartitionPollInterval time.Duration `key:"partition_poll_interval" def:"300ms"`
	NotificationChannel   string        `key:"partition_notification_channel" doc:"LISTEN channel that wakes up the poll."`
	NotificationDSN       string        `key:"partition_notification_dsn" opt:"secret" doc:"DSN for LISTEN."`
	TLS                   TLS           `key:"tls"`
	UseTryLock            bool          `key:"use_try_lock" doc:"Do not wait for the advisory lock."`
}

// KafkaConsumer reads topics as a group.
type KafkaConsumer struct {
	Brokers               []string            `key:"brokers"`
	Topics                []string            `key:"topics"`
	ConsumerGroup         string              `key:"consumer_group"`
	MaxPollRecords        int                 `key:"max_poll_records" def:"100"`
	FetchMaxBytes         int                 `key:"fetch_max_bytes" doc:"Bytes; 0 for 50 MB."`
	FetchMaxWait          time.Duration       `key:"fetch_max_wait" def:"500ms"`
	FetchReadUncommitted  bool                `key:"fetch_read_uncommitted"`
	PartitionQueueMaxSize int                 `key:"partition_queue_max_size" def:"1000" doc:"A fuller partition is paused; -1 to pause on every poll."`
	DialTimeout           time.Duration       `key:"dial_timeout" def:"3s"`
	TLS                   TLS                 `key:"tls"`
	SASLMechanism         string              `key:"sasl_mechanism" enum:"plain|scram-sha-256|scram-sha-512|aws-msk-iam"`
	SASLUser              string              `key:"sasl_user"`
	SASLPassword          string              `key:"sasl_password" opt:"secret"`
	AssumeRoleARN         string              `key:"assume_role_arn" doc:"Role to assume for aws-msk-iam, in place of the keys, with the credentials of the environment."`
	InstanceID            string              `key:"instance_id" doc:"Static group membership."`
	MethodHeader          string              `key:"method_header" def:"centrifugo-method" doc:"Header with the method."`
	PublicationDataMode   PublicationDataMode `key:"publication_data_mode" arg:"header"`
}

// NATSServer is a connection to NATS.
type NATSServer struct {
	URL             string `key:"url" def:"nats://127.0.0.1:4222" opt:"secret"`
	CredentialsFile string `key:"credentials_file"`
	Username        string `key:"username"`
	Password        string `key:"password" opt:"secret"`
	Token           string `key:"token" opt:"secret"`
	TLS             TLS    `key:"tls"`
}

// JetStreamConsumer reads a NATS JetStream.
type JetStreamConsumer struct {
	NATSServer
	StreamName          string              `key:"stream_name"`
	UseExistingConsumer bool                `key:"use_existing_consumer" doc:"Attach only; fail if it does not exist."`
	Subjects            []string            `key:"subjects"`
	DurableConsumerName string              `key:"durable_consumer_name"`
	DeliverPolicy       string              `key:"deliver_policy" def:"new"`
	MaxAckPending       int                 `key:"max_ack_pending" def:"100"`
	MethodHeader        string              `key:"method_header" def:"centrifugo-method" doc:"Header with the method."`
	PublicationDataMode PublicationDataMode `key:"publication_data_mode" arg:"header"`
}

// RedisConsumer reads Redis streams.
type RedisConsumer struct {
	engines.Redis
	Streams             []string            `key:"streams"`
	ConsumerGroup       string              `key:"consumer_group"`
	VisibilityTimeout   time.Duration       `key:"visibility_timeout" def:"30s" doc:"Claim entries of others after this time."`
	NumWorkers          int                 `key:"num_workers" def:"1" doc:"Per stream."`
	PayloadValue        string              `key:"payload_value" def:"payload" doc:"Field with the payload."`
	MethodValue         string              `key:"method_value" def:"method" doc:"Field with the method."`
	PublicationDataMode PublicationDataMode `key:"publication_data_mode" arg:"value"`
}

// PubSubConsumer reads Google Pub/Sub.
type PubSubConsumer struct {
	ProjectID              string              `key:"project_id"`
	Subscriptions          []string            `key:"subscriptions"`
	MaxOutstandingMessages int                 `key:"max_outstanding_messages" def:"100" doc:"Messages of a subscription that are under way at a time."`
	MaxOutstandingBytes    int                 `key:"max_outstanding_bytes" def:"1000000" doc:"Their bytes."`
	AuthMechanism          string              `key:"auth_mechanism" doc:"service_account takes the credentials from credentials_file, default (or empty) from the environment."`
	CredentialsFile        string              `key:"credentials_file" doc:"JSON key of a service account."`
	MethodAttribute        string              `key:"method_attribute" def:"centrifugo-method" doc:"Attribute with the method."`
	PublicationDataMode    PublicationDataMode `key:"publication_data_mode" arg:"attribute"`
}

// SQSConsumer reads AWS SQS.
type SQSConsumer struct {
	Queues              []string            `key:"queues" doc:"URLs."`
	SNSEnvelope         bool                `key:"sns_envelope" doc:"Bodies are notifications of SNS, whose Message is the payload."`
	Region              string              `key:"region" doc:"Empty: that of the environment."`
	MaxNumberOfMessages int                 `key:"max_number_of_messages" def:"10" doc:"Messages per request, 10 at most."`
	WaitTime            time.Duration       `key:"wait_time_time" def:"20s" doc:"How long a request waits for messages, 20 s at most."`
	VisibilityTimeout   time.Duration       `key:"visibility_timeout" def:"30s" doc:"A message that is not done comes again after this time."`
	MaxConcurrency      int                 `key:"max_concurrency" def:"1" doc:"Messages, or groups of a FIFO queue, executed at a time."`
	CredentialsProfile  string              `key:"credentials_profile" doc:"Profile of the shared configuration files of AWS."`
	AssumeRoleARN       string              `key:"assume_role_arn" doc:"Role to assume with the credentials of the environment."`
	MethodAttribute     string              `key:"method_attribute" def:"centrifugo-method" doc:"Attribute with the method."`
	LocalstackEndpoint  string              `key:"localstack_endpoint" doc:"URL to use in place of those of AWS."`
	PublicationDataMode PublicationDataMode `key:"publication_data_mode" arg:"attribute"`
}

// AzureConsumer reads Azure Service Bus.
type AzureConsumer struct {
	ConnectionString        string              `key:"connection_string" opt:"secret"`
	UseAzureIdentity        bool                `key:"use_azure_identity" doc:"Use the next four keys, a client secret of Entra ID, in place of connection_string."`
	FullyQualifiedNamespace string              `key:"fully_qualified_namespace" doc:"NAME.servicebus.windows.net."`
	TenantID                string              `key:"tenant_id"`
	ClientID                string              `key:"client_id"`
	ClientSecret            string              `key:"client_secret" opt:"secret"`
	Queues                  []string            `key:"queues"`
	UseSessions             bool                `key:"use_sessions" doc:"The queues have sessions, whose messages are executed in their order."`
	MaxConcurrentCalls      int                 `key:"max_concurrent_calls" def:"1" doc:"Receivers, or sessions, per queue and node."`
	MaxReceiveMessages      int                 `key:"max_receive_messages" def:"1" doc:"Messages that a receiver takes at a time."`
	MethodProperty          string              `key:"method_property" def:"centrifugo-method" doc:"Property with the method."`
	PublicationDataMode     PublicationDataMode `key:"publication_data_mode" arg:"property"`
}

// PublicationDataMode takes a message's body as the data of a publication and the rest from the headers, values,
// attributes or properties of the queue.
type PublicationDataMode struct {
	Enabled        bool   `key:"enabled"`
	Channels       string `key:"channels_{}" def:"centrifugo-channels" doc:"Holds the channels, comma-separated."`
	IdempotencyKey string `key:"idempotency_key_{}" def:"centrifugo-idempotency-key"`
	Delta          string `key:"delta_{}" def:"centrifugo-delta"`
	Version        string `key:"version_{}" def:"centrifugo-version"`
	VersionEpoch   string `key:"version_epoch_{}" def:"centrifugo-version-epoch"`
	TagsPrefix     string `key:"tags_{}_prefix" def:"centrifugo-tag-" doc:"Prefix of those that become tags."`
}
