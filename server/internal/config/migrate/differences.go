package migrate

import (
	"strings"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

var extended = []struct{ names, do string }{
	{"singleflight shared_position_sync", "Remove it: Gyro always does this."},
	{"write_delay write_with_timer reply_without_queue max_messages_in_frame queue_shrink_delay batch_periodic_events", "Remove it: what gathers for a client leaves in one write by itself."},
	{"group_sharded_pub_sub_by_node use_precomputed_partition_tags optimize_for_reliability", "Remove it, or see sharded_pub_sub_partitions."},
	{"subscribe_cel publish_cel history_cel presence_cel patterns pattern", "Use subscription tokens, allow_… options or channel_regex."},
	{"rate_limit", "Limit connections by client.connection_rate_limit and client.user_connection_limit. There are no limits per operation: put them into your backend or proxy."},
	{"keep_latest_publication client_publication " +
		"state_proxy_enabled channel_state push_notifications database " +
		"clickhouse_analytics resource_detectors oidc use_fast_client",
		"Remove it: Gyro has no such feature. What depends on it has to stay on Centrifugo."},
}

func ofExtended(key string) string {
	name := key[strings.LastIndexByte(key, '.')+1:]
	for _, x := range extended {
		for n := range strings.FieldsSeq(x.names) {
			if n == name {
				return x.do
			}
		}
	}
	return ""
}

// difference is a key that behaves differently from Centrifugo.
type difference struct {
	key      string
	on       func(*config.Config) bool // the configuration makes it matter
	what, do string
}

var differences = []difference{
	{"uni_grpc.enabled", func(c *config.Config) bool {
		return c.UniGRPC.Enabled && (c.Client.ConnectionLimit > 0 || c.Client.ConnectionRateLimit > 0)
	},
		"client.connection_limit and client.connection_rate_limit hold for gRPC streams, too: above them the status is UNAVAILABLE.",
		"Count gRPC clients in when you choose the limits."},
	{"uni_grpc.enabled", func(c *config.Config) bool { return c.UniGRPC.Enabled && c.Client.UserIDHTTPHeader != "" },
		"client.user_id_http_header is not read from the metadata of gRPC clients, who reach that port without the reverse proxy that sets it.",
		"Set uni_grpc.user_id_metadata if a reverse proxy of gRPC names the user."},
	{"uni_grpc.max_receive_message_size", func(c *config.Config) bool { return c.UniGRPC.Enabled && c.UniGRPC.MaxReceiveMessageSize == 0 },
		"the default for connect requests of gRPC clients is 64 KiB, not 4 MiB.", "Set it if connect requests are larger."},
	{"client.subscribe_to_user_personal_channel.enabled", func(c *config.Config) bool { return c.Client.UserPersonalChannel.Enabled },
		"a client needs a subscription token for the personal channel of another user; the options of the namespace do not count. #ann,bob is the channel of the user ann,bob.",
		"Use another namespace for user-limited channels of several users."},
	{"client.proxy.refresh.enabled", func(c *config.Config) bool { return c.Client.Proxy.Refresh.Enabled },
		"a connection whose refresh proxy gives no answer for 10 minutes ends with 3005; Centrifugo keeps it for ever.",
		"Set client.refresh_proxy_grace; a negative time is no limit."},
	{"health.enabled", func(c *config.Config) bool { return c.Health.Enabled && c.Health.Mode != "live" },
		"the health endpoint is 503 while the engine (Redis, NATS) is away and while the node shuts down; Centrifugo answers 200 always. A liveness probe there restarts all nodes when Redis is away, and disconnects all clients.",
		"Let liveness probes ask PATH/live and readiness probes PATH/ready, or set health.mode to live."},
	{"prometheus.namespace", func(c *config.Config) bool { return c.Prometheus.Enabled && c.Prometheus.Namespace != "centrifugo" },
		"names of metrics do not begin with centrifugo_.",
		"Set prometheus.namespace to centrifugo to keep dashboards and alerts, or change these."},
	{"prometheus.enabled", func(c *config.Config) bool { return c.Prometheus.Enabled },
		"names and labels after the prefix are the same as in Centrifugo; families of unsupported features are missing, and Gyro has some of its own.",
		"Compare the metrics in dashboards and alerts with docs/metrics.md."},
	{"engine.type", func(c *config.Config) bool { return c.UsesEngine() && c.Engine.Type == engines.TypeRedis },
		sharedEngine, sharedDo},
	{"broker.type", func(c *config.Config) bool {
		return c.Broker.Enabled && (c.Broker.Type == engines.TypeRedis || c.Broker.Type == engines.TypeNATS)
	}, sharedBroker, sharedDo},
	{"broker.nats.allow_wildcards", func(c *config.Config) bool {
		return c.Broker.Enabled && c.Broker.Type == engines.TypeNATS && c.Broker.NATS.AllowWildcards
	}, "a wildcard subscription delivers nothing that the client could not subscribe to by name (other namespaces, private and user-limited channels), and a name cannot begin with a wildcard.", ""},
	{"channel.max_length", func(c *config.Config) bool { return c.Channel.MaxLength != 255 },
		"the limit is for all names, also in tokens and in the server API; in Centrifugo for subscribe commands alone.",
		"Make it as long as the longest name that your backend publishes to."},
	{"client.queue_max_size", func(c *config.Config) bool { return c.Client.QueueMaxSize != 1<<20 },
		"a single reply that is larger is answered with error 106 instead of a disconnect, and a recovery that would need one is answered with recovered: false.", ""},
}

const (
	sharedEngine = "publications, history and presence" + shared
	sharedBroker = "publications, and history if the broker has it," + shared
	shared       = " are shared with Centrifugo nodes on the same servers and prefix, and so are disconnect, unsubscribe and info of the API, whichever kind of node is asked. What Gyro alone has (connections, snapshots, explain) answers for Gyro's nodes."
	sharedDo     = "While both kinds run, ask a node of each kind for anything else about clients."
)

var optionDifferences = []struct {
	key      string
	on       func(*config.ChannelOptions) bool
	what, do string
}{
	{"publication_data_format", func(o *config.ChannelOptions) bool {
		return o.PublicationDataFormat == "" && (o.AllowPublishForClient || o.AllowPublishForSubscriber)
	}, "by default a client can publish JSON only. Centrifugo takes any bytes, and disconnects all JSON subscribers if these are not JSON; Gyro leaves out such publications of the API for JSON subscribers.",
		"Set binary where clients publish other data."},
	{"map.client_max_entries", func(o *config.ChannelOptions) bool {
		m := &o.Map
		return o.IsMap() && m.ClientMaxEntries == 0 && m.ClientKey != "user_id" &&
			(m.AllowPublishForClient || m.AllowPublishForSubscriber || m.PublishProxyEnabled)
	}, "clients set no new key in a map that has 10,000 entries: error 106. Centrifugo has no bound.",
		"Set a greater number for larger maps that clients write, or a negative one for no bound."},
	{"allow_user_limited_channels", func(o *config.ChannelOptions) bool { return o.AllowUserLimitedChannels },
		"a channel with an empty list of users (room#) lets no client in; Centrifugo lets anonymous clients in.", ""},
	{"allow_tags_filter", func(o *config.ChannelOptions) bool { return o.AllowTagsFilter && len(o.AllowedDeltaTypes) > 0 },
		"a subscription that asks for a filter and for deltas is filtered, and gets deltas to what it got last; Centrifugo agrees on no deltas then, and before 6.9.2 sent it publications that the filter leaves out.", ""},
	{"allow_channel_compaction", func(o *config.ChannelOptions) bool { return o.AllowChannelCompaction },
		"in Protobuf only clients named go or python get numbers, because centrifuge-js drops messages that have them; Centrifugo PRO sends them to all that ask.", ""},
}
