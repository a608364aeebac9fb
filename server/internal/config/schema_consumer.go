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
	Name            string             `key:"name" doc:"Unique name: letters, digits and underscores."`
	Enabled         bool               `key:"enabled" doc:"Run the consumer."`
	Type            string             `key:"type" enum:"postgresql|kafka|nats_jetstream|redis_stream|google_pub_sub|aws_sqs|azure_service_bus" doc:"Type of the queue, and name of the section below with its settings. Required."`
	RetryTime       time.Duration      `key:"retry_time" def:"1h" doc:"A message that has failed for this time is given up, unless all messages fail. Negative: never."`
	DeadLetter      string             `key:"dead_letter" doc:"Table, topic, subject, stream or queue (of SQS: its URL) of the same system to which messages are written that are given up. Empty: they are only logged."`
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
	DSN                   string        `key:"dsn" opt:"secret" doc:"Address of the database: a URL, or a list of key=value. Required."`
	OutboxTableName       string        `key:"outbox_table_name" doc:"Name of the outbox table. Required."`
	NumPartitions         int           `key:"num_partitions" def:"1" doc:"Number of partitions, from 1 to 4096. One node at a time reads each partition; rows with a partition outside of it are never read."`
	PartitionSelectLimit  int           `key:"partition_select_limit" def:"100" doc:"Number of rows in a read, from 1 to 100000."`
	PartitionPollInterval time.Duration `key:"partition_poll_interval" def:"300ms" doc:"Time between two reads of a partition."`
	NotificationChannel   string        `key:"partition_notification_channel" doc:"Channel of LISTEN whose notifications start a read at once. Empty: none."`
	NotificationDSN       string        `key:"partition_notification_dsn" opt:"secret" doc:"Address for LISTEN, if the database is behind a pooler. Empty: dsn."`
	TLS                   TLS           `key:"tls"`
	UseTryLock            bool          `key:"use_try_lock" doc:"Do not wait for the lock of a partition that another node has; try again after partition_poll_interval."`
}

// KafkaConsumer reads topics as a group.
type KafkaConsumer struct {
	Brokers               []string            `key:"brokers" doc:"Addresses of brokers, host:port. Required."`
	Topics                []string            `key:"topics" doc:"Topics to read. Required."`
	ConsumerGroup         string              `key:"consumer_group" doc:"Name of the consumer group. Required."`
	MaxPollRecords        int                 `key:"max_poll_records" def:"100" doc:"Largest number of records in a poll."`
	FetchMaxBytes         int                 `key:"fetch_max_bytes" doc:"Largest size of a fetch, in bytes, at most 1 GiB. 0: 50 MB."`
	FetchMaxWait          time.Duration       `key:"fetch_max_wait" def:"500ms" doc:"How long a broker waits for enough data to answer a fetch."`
	FetchReadUncommitted  bool                `key:"fetch_read_uncommitted" doc:"Read records of transactions that are not committed."`
	PartitionQueueMaxSize int                 `key:"partition_queue_max_size" def:"1000" doc:"Number of waiting records of a partition with which its fetches pause. -1: they pause after every poll."`
	DialTimeout           time.Duration       `key:"dial_timeout" def:"3s" doc:"Longest time to connect."`
	TLS                   TLS                 `key:"tls"`
	SASLMechanism         string              `key:"sasl_mechanism" enum:"plain|scram-sha-256|scram-sha-512|aws-msk-iam" doc:"Mechanism of SASL. Empty: no authentication."`
	SASLUser              string              `key:"sasl_user" doc:"User; with aws-msk-iam, the ID of the access key."`
	SASLPassword          string              `key:"sasl_password" opt:"secret" doc:"Password; with aws-msk-iam, the secret of the access key."`
	AssumeRoleARN         string              `key:"assume_role_arn" doc:"Role for aws-msk-iam, which is assumed with the credentials of the environment, in place of user and password."`
	InstanceID            string              `key:"instance_id" doc:"ID of a static member of the group. Empty: a dynamic member."`
	MethodHeader          string              `key:"method_header" def:"centrifugo-method" doc:"Header of a record that has the method of the API. A record without it has method and payload in its value."`
	PublicationDataMode   PublicationDataMode `key:"publication_data_mode" arg:"header"`
}

// NATSServer is a connection to NATS.
type NATSServer struct {
	URL             string `key:"url" def:"nats://127.0.0.1:4222" opt:"secret" doc:"URL of the server, or URLs of a cluster separated by commas."`
	CredentialsFile string `key:"credentials_file" doc:"File with the credentials of a NATS user."`
	Username        string `key:"username" doc:"Name of the user."`
	Password        string `key:"password" opt:"secret" doc:"Password of the user."`
	Token           string `key:"token" opt:"secret" doc:"Token for authentication."`
	TLS             TLS    `key:"tls"`
}

// JetStreamConsumer reads a NATS JetStream.
type JetStreamConsumer struct {
	NATSServer
	StreamName          string              `key:"stream_name" doc:"Name of the stream. Required."`
	UseExistingConsumer bool                `key:"use_existing_consumer" doc:"Use a durable consumer that exists, as it is. If it does not exist, the start fails."`
	Subjects            []string            `key:"subjects" doc:"Subjects to read. Empty: all subjects of the stream."`
	DurableConsumerName string              `key:"durable_consumer_name" doc:"Name of the durable consumer, which nodes share. Required."`
	DeliverPolicy       string              `key:"deliver_policy" def:"new" doc:"Messages that a new durable consumer begins with: new or all."`
	MaxAckPending       int                 `key:"max_ack_pending" def:"100" doc:"Largest number of messages without an acknowledgement."`
	MethodHeader        string              `key:"method_header" def:"centrifugo-method" doc:"Header of a message that has the method of the API. A message without it has method and payload in its body."`
	PublicationDataMode PublicationDataMode `key:"publication_data_mode" arg:"header"`
}

// RedisConsumer reads Redis streams.
type RedisConsumer struct {
	engines.Redis
	Streams             []string            `key:"streams" doc:"Streams to read. Required."`
	ConsumerGroup       string              `key:"consumer_group" doc:"Name of the consumer group. Required."`
	VisibilityTimeout   time.Duration       `key:"visibility_timeout" def:"30s" doc:"Time after which an entry without an acknowledgement is delivered again, at least 1s."`
	NumWorkers          int                 `key:"num_workers" def:"1" doc:"Number of workers of each stream, from 1 to 1024. With more than 1 there is no order."`
	PayloadValue        string              `key:"payload_value" def:"payload" doc:"Field of an entry that has the payload. Required."`
	MethodValue         string              `key:"method_value" def:"method" doc:"Field of an entry that has the method of the API. An entry without it has method and payload in the field payload_value."`
	PublicationDataMode PublicationDataMode `key:"publication_data_mode" arg:"value"`
}

// PubSubConsumer reads Google Pub/Sub.
type PubSubConsumer struct {
	ProjectID              string              `key:"project_id" doc:"ID of the project. Required."`
	Subscriptions          []string            `key:"subscriptions" doc:"Names of the subscriptions. Required."`
	MaxOutstandingMessages int                 `key:"max_outstanding_messages" def:"100" doc:"Largest number of messages of a subscription that are processed at the same time."`
	MaxOutstandingBytes    int                 `key:"max_outstanding_bytes" def:"1000000" doc:"Largest size of these messages, in bytes."`
	AuthMechanism          string              `key:"auth_mechanism" doc:"Source of the credentials: service_account for credentials_file, default or empty for the environment."`
	CredentialsFile        string              `key:"credentials_file" doc:"File with the JSON key of a service account."`
	MethodAttribute        string              `key:"method_attribute" def:"centrifugo-method" doc:"Attribute of a message that has the method of the API. A message without it has method and payload in its data."`
	PublicationDataMode    PublicationDataMode `key:"publication_data_mode" arg:"attribute"`
}

// SQSConsumer reads AWS SQS.
type SQSConsumer struct {
	Queues              []string            `key:"queues" doc:"URLs of the queues. Required."`
	SNSEnvelope         bool                `key:"sns_envelope" doc:"Bodies are notifications of SNS, with the payload in their member Message."`
	Region              string              `key:"region" doc:"Region of AWS. Empty: the region of the environment."`
	MaxNumberOfMessages int                 `key:"max_number_of_messages" def:"10" doc:"Number of messages in a request, from 1 to 10."`
	WaitTime            time.Duration       `key:"wait_time_time" def:"20s" doc:"How long a request waits for messages, at most 20s."`
	VisibilityTimeout   time.Duration       `key:"visibility_timeout" def:"30s" doc:"Time after which a message that was not processed comes again, at most 12h."`
	MaxConcurrency      int                 `key:"max_concurrency" def:"1" doc:"Number of messages that are processed at the same time; of a FIFO queue, the number of message groups."`
	CredentialsProfile  string              `key:"credentials_profile" doc:"Profile in the shared configuration files of AWS. Empty: the default."`
	AssumeRoleARN       string              `key:"assume_role_arn" doc:"Role that is assumed with the credentials of the environment. Empty: none."`
	MethodAttribute     string              `key:"method_attribute" def:"centrifugo-method" doc:"Attribute of a message that has the method of the API. A message without it has method and payload in its body."`
	LocalstackEndpoint  string              `key:"localstack_endpoint" doc:"URL that replaces the endpoints of AWS. Empty: AWS."`
	PublicationDataMode PublicationDataMode `key:"publication_data_mode" arg:"attribute"`
}

// AzureConsumer reads Azure Service Bus.
type AzureConsumer struct {
	ConnectionString        string              `key:"connection_string" opt:"secret" doc:"Connection string. Required unless use_azure_identity is on."`
	UseAzureIdentity        bool                `key:"use_azure_identity" doc:"Authenticate with the next four keys, a client secret of Entra ID, in place of connection_string."`
	FullyQualifiedNamespace string              `key:"fully_qualified_namespace" doc:"Host name NAME.servicebus.windows.net."`
	TenantID                string              `key:"tenant_id" doc:"ID of the tenant."`
	ClientID                string              `key:"client_id" doc:"ID of the client."`
	ClientSecret            string              `key:"client_secret" opt:"secret" doc:"Secret of the client."`
	Queues                  []string            `key:"queues" doc:"Names of the queues. Required."`
	UseSessions             bool                `key:"use_sessions" doc:"The queues have sessions. Messages of a session are processed in their order."`
	MaxConcurrentCalls      int                 `key:"max_concurrent_calls" def:"1" doc:"Number of receivers, or of sessions, of each queue in each node."`
	MaxReceiveMessages      int                 `key:"max_receive_messages" def:"1" doc:"Number of messages that a receiver takes at once, from 1 to 5000."`
	MethodProperty          string              `key:"method_property" def:"centrifugo-method" doc:"Property of a message that has the method of the API. A message without it has method and payload in its body."`
	PublicationDataMode     PublicationDataMode `key:"publication_data_mode" arg:"property"`
}

// PublicationDataMode takes the content of a message as the data of a publication, and the rest from headers, values,
// attributes or properties.
type PublicationDataMode struct {
	Enabled        bool   `key:"enabled" doc:"The content of a message is the data of a publication. The settings below name what has its options."`
	Channels       string `key:"channels_{}" def:"centrifugo-channels" doc:"Name of the {} with the channels, separated by commas."`
	IdempotencyKey string `key:"idempotency_key_{}" def:"centrifugo-idempotency-key" doc:"Name of the {} with the idempotency key."`
	Delta          string `key:"delta_{}" def:"centrifugo-delta" doc:"Name of the {} that is true if subscribers get a difference."`
	Version        string `key:"version_{}" def:"centrifugo-version" doc:"Name of the {} with the version."`
	VersionEpoch   string `key:"version_epoch_{}" def:"centrifugo-version-epoch" doc:"Name of the {} with the epoch of the version."`
	TagsPrefix     string `key:"tags_{}_prefix" def:"centrifugo-tag-" doc:"Start of the names of the {} that become tags."`
}
