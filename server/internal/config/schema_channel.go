package config

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// Channel has the namespaces and the rules of channel names.
type Channel struct {
	Proxy struct {
		Subscribe         Proxy `key:"subscribe"`
		Publish           Proxy `key:"publish"`
		SubRefresh        Proxy `key:"sub_refresh"`
		CacheEmpty        Proxy `key:"cache_empty"`
		SubscribeStream   Proxy `key:"subscribe_stream"`
		MapPublish        Proxy `key:"map_publish"`
		MapRemove         Proxy `key:"map_remove"`
		SharedPollRefresh Proxy `key:"shared_poll_refresh"`
	} `key:"proxy"`
	WithoutNamespace      ChannelOptions `key:"without_namespace" doc:"Options of channels without namespace."`
	Namespaces            []Namespace    `key:"namespaces" doc:"Named sets of channel options."`
	HistoryMetaTTL        time.Duration  `key:"history_meta_ttl" def:"720h" opt:"seconds" doc:"How long the position of a stream outlives its publications; whole seconds."`
	PublicationDataFormat string         `key:"publication_data_format" enum:"json|json_object|binary" doc:"Format of payloads in namespaces that set none."`
	MaxLength             int            `key:"max_length" opt:"restart" def:"255" min:"1" doc:"Longest name of a channel, bytes, whoever gives it: clients, tokens or backends."`
	PrivatePrefix         string         `key:"private_prefix" def:"$" doc:"Channels that start with it need a subscription token."`
	NamespaceBoundary     string         `key:"namespace_boundary" def:":" doc:"Ends the namespace in a channel's name."`
	UserBoundary          string         `key:"user_boundary" def:"#" doc:"Starts the list of allowed users."`
	UserSeparator         string         `key:"user_separator" def:"," doc:"Separates allowed users."`
}

// Namespace is a named set of channel options.
type Namespace struct {
	Name string `key:"name" doc:"Unique name; what comes before the boundary in a channel's name."`
	ChannelOptions
}

// ChannelOptions say how a channel behaves. The tag grant names the field of gyro.SubscribeOptions that an option sets
// (package channels).
type ChannelOptions struct {
	Presence           bool   `key:"presence" grant:"Presence" doc:"Know who is subscribed."`
	JoinLeave          bool   `key:"join_leave" grant:"EmitJoinLeave" doc:"Send join and leave messages."`
	ForcePushJoinLeave bool   `key:"force_push_join_leave" grant:"PushJoinLeave" doc:"Send them to all subscribers, not only to those that ask."`
	MapClientsPresence string `key:"map_clients_presence_channel_prefix" doc:"Keep presence also in the map channel with this prefix, by connection."`
	MapUsersPresence   string `key:"map_users_presence_channel_prefix" doc:"Keep presence also in the map channel with this prefix, by user."`

	HistorySize       int           `key:"history_size" min:"0" grant:"-" doc:"Publications kept per channel."`
	HistoryTTL        time.Duration `key:"history_ttl" opt:"seconds" min:"0" grant:"-" doc:"How long they are kept after the latest one; whole seconds."`
	HistoryMetaTTL    time.Duration `key:"history_meta_ttl" opt:"seconds" min:"0" grant:"HistoryMetaTTL" doc:"How long the position of the stream is kept; 0 for channel.history_meta_ttl."`
	ForcePositioning  bool          `key:"force_positioning" grant:"Positioned" doc:"Check that no subscriber misses a publication."`
	AllowPositioning  bool          `key:"allow_positioning" grant:"-" doc:"Let clients ask for positioning."`
	ForceRecovery     bool          `key:"force_recovery" grant:"Recoverable" doc:"Deliver missed publications to returning subscribers."`
	AllowRecovery     bool          `key:"allow_recovery" grant:"-" doc:"Let clients ask for recovery."`
	ForceRecoveryMode string        `key:"force_recovery_mode" enum:"stream|cache" grant:"-" doc:"stream recovers every missed publication, cache the latest one."`
	AutoCacheRecover  bool          `key:"auto_cache_recover" grant:"AutoRecover" doc:"In cache mode, deliver the latest publication on every subscribe."`

	BrokerName          string `key:"broker_name" doc:"Name of an enabled element of brokers that carries these channels; by default broker or engine."`
	PresenceManagerName string `key:"presence_manager_name" doc:"Name of an enabled element of presence_managers that keeps their presence; by default presence_manager or engine."`

	AllowedDeltaTypes      []string      `key:"allowed_delta_types" enum:"fossil" grant:"-" doc:"Delta algorithms that subscribers may use."`
	DeltaPublish           bool          `key:"delta_publish" doc:"Publish everything for delta subscribers."`
	AllowTagsFilter        bool          `key:"allow_tags_filter" grant:"AllowTagsFilter" doc:"Let subscribers filter by tags."`
	AllowChannelCompaction bool          `key:"allow_channel_compaction" grant:"AllowCompaction" doc:"Give clients that ask for it a number, which replaces the channel's name in what they get."`
	ClientPublishDebounce  time.Duration `key:"client_publish_debounce_interval" min:"0" max:"1h" grant:"PublishDebounce" doc:"Ask clients to publish only the newest value within this time, in a map of each key; in milliseconds, rounded up, at most 1h. 0: they publish all."`
	PublicationDataFormat  string        `key:"publication_data_format" enum:"json|json_object|binary" doc:"Format of payloads; by default anything but empty, and JSON from clients."`
	ChannelRegex           string        `key:"channel_regex" doc:"Pattern of the name after the namespace; by default any ASCII."`

	BatchMaxDelay    time.Duration `key:"batch_max_delay" min:"0" max:"1m" grant:"BatchMaxDelay" doc:"Hold back messages until this long after the first one, so that they leave in one write; at most 1m, 0 for 1s if batch_max_size is set."`
	BatchMaxSize     int           `key:"batch_max_size" min:"0" max:"64" grant:"BatchMaxSize" doc:"Hold back messages until they are this many; 0 for 64 if batch_max_delay is set. By default nothing is held back."`
	BatchFlushLatest bool          `key:"batch_flush_latest" grant:"BatchFlushLatest" doc:"Of messages that were held back, deliver only the newest publication, in a map the newest of each key; needs batch_max_delay or batch_max_size. Subscriptions with positioning or recovery get all."`

	AllowSubscribeForClient    bool `key:"allow_subscribe_for_client" doc:"Users may subscribe."`
	AllowSubscribeForAnonymous bool `key:"allow_subscribe_for_anonymous" doc:"Extends the option above to anonymous connections."`
	AllowPublishForClient      bool `key:"allow_publish_for_client" doc:"Users may publish."`
	AllowPublishForSubscriber  bool `key:"allow_publish_for_subscriber" doc:"Subscribers may publish."`
	AllowPublishForAnonymous   bool `key:"allow_publish_for_anonymous" doc:"Extends the two options above to anonymous connections."`
	AllowPresenceForClient     bool `key:"allow_presence_for_client" doc:"Users may ask who is present."`
	AllowPresenceForSubscriber bool `key:"allow_presence_for_subscriber" doc:"Subscribers may ask who is present."`
	AllowPresenceForAnonymous  bool `key:"allow_presence_for_anonymous" doc:"Extends the two options above to anonymous connections."`
	AllowHistoryForClient      bool `key:"allow_history_for_client" doc:"Users may read history."`
	AllowHistoryForSubscriber  bool `key:"allow_history_for_subscriber" doc:"Subscribers may read history."`
	AllowHistoryForAnonymous   bool `key:"allow_history_for_anonymous" doc:"Extends the two options above to anonymous connections."`
	AllowUserLimitedChannels   bool `key:"allow_user_limited_channels" doc:"Names may list the allowed users after the user boundary."`

	SubscribeProxyEnabled       bool   `key:"subscribe_proxy_enabled" doc:"The backend decides on subscribing."`
	SubscribeProxyName          string `key:"subscribe_proxy_name" def:"default" doc:"default for channel.proxy.subscribe, else a name of proxies."`
	PublishProxyEnabled         bool   `key:"publish_proxy_enabled" doc:"The backend decides on publishing."`
	PublishProxyName            string `key:"publish_proxy_name" def:"default" doc:"default for channel.proxy.publish, else a name of proxies."`
	SubRefreshProxyEnabled      bool   `key:"sub_refresh_proxy_enabled" doc:"The backend prolongs expiring subscriptions."`
	SubRefreshProxyName         string `key:"sub_refresh_proxy_name" def:"default" doc:"default for channel.proxy.sub_refresh, else a name of proxies."`
	CacheEmptyProxyEnabled      bool   `key:"cache_empty_proxy_enabled" doc:"The backend publishes the latest state into channels that have no publication, when a client needs one; needs history_size and history_ttl."`
	CacheEmptyProxyName         string `key:"cache_empty_proxy_name" def:"default" doc:"default for channel.proxy.cache_empty, else a name of proxies."`
	SubscribeStreamProxyEnabled bool   `key:"subscribe_stream_proxy_enabled" doc:"A subscription is a gRPC stream from the backend."`
	SubscribeStreamProxyName    string `key:"subscribe_stream_proxy_name" def:"default" doc:"default for channel.proxy.subscribe_stream, else a name of proxies."`
	SubscribeStreamProxyBidi    bool   `key:"subscribe_stream_proxy_bidirectional" doc:"Publications of clients go into the stream."`

	SubscriptionType string            `key:"subscription_type" enum:"stream|map|map_clients|map_users|shared_poll" grant:"-" doc:"What clients must ask for; by default stream."`
	Map              MapOptions        `key:"map"`
	SharedPoll       SharedPollOptions `key:"shared_poll"`
}

// MapOptions are used with the map subscription types.
type MapOptions struct {
	Mode                      string        `key:"mode" enum:"ephemeral|recoverable|persistent" doc:"Required for map types."`
	BrokerName                string        `key:"broker_name" doc:"Name of an enabled element of map_brokers that keeps these maps; by default map_broker."`
	KeyTTL                    time.Duration `key:"key_ttl" doc:"Lifetime of a key after its last update."`
	StreamSize                int           `key:"stream_size" doc:"Length of the change stream; 0 for 100."`
	StreamTTL                 time.Duration `key:"stream_ttl" doc:"Lifetime of the change stream; 0 for 1m."`
	MetaTTL                   time.Duration `key:"meta_ttl" doc:"Lifetime of the stream position."`
	RemoveOnUnsubscribe       bool          `key:"remove_client_on_unsubscribe" doc:"Remove the key that equals the client's ID when it goes."`
	ClientKey                 string        `key:"client_key" enum:"client_id|user_id" doc:"Key of client writes; by default the client chooses it."`
	ClientMaxEntries          int           `key:"client_max_entries" doc:"Clients set no new key in a map with so many entries; 0 for 10000, or for no limit with client_key user_id; negative for no limit. A key of Gyro alone."`
	AllowPublishForClient     bool          `key:"allow_publish_for_client" doc:"Users may write."`
	AllowPublishForSubscriber bool          `key:"allow_publish_for_subscriber" doc:"Subscribers may write."`
	AllowPublishForAnonymous  bool          `key:"allow_publish_for_anonymous" doc:"Extends the two options above to anonymous connections."`
	AllowRemoveForClient      bool          `key:"allow_remove_for_client" doc:"Users may remove."`
	AllowRemoveForSubscriber  bool          `key:"allow_remove_for_subscriber" doc:"Subscribers may remove."`
	AllowRemoveForAnonymous   bool          `key:"allow_remove_for_anonymous" doc:"Extends the two options above to anonymous connections."`
	PublishProxyEnabled       bool          `key:"publish_proxy_enabled" doc:"The backend decides on writes."`
	PublishProxyName          string        `key:"publish_proxy_name" def:"default" doc:"default for channel.proxy.map_publish, else a name of proxies."`
	RemoveProxyEnabled        bool          `key:"remove_proxy_enabled" doc:"The backend decides on removals."`
	RemoveProxyName           string        `key:"remove_proxy_name" def:"default" doc:"default for channel.proxy.map_remove, else a name of proxies."`
	DefaultPageSize           int           `key:"default_page_size" min:"0" doc:"Page size if the client names none; 0 for 100."`
	MinPageSize               int           `key:"min_page_size" min:"0" doc:"Least page size; 0 for 100."`
	MaxPageSize               int           `key:"max_page_size" min:"0" doc:"Largest page size; 0 for 1000."`
	LiveTransitionLimit       int           `key:"live_transition_max_publication_limit" doc:"Changes recovered when going live; 0 for the largest page size."`
	CatchUpTimeout            time.Duration `key:"subscribe_catch_up_timeout" doc:"Time for paging before going live; 0 for 5s, negative for no limit."`
	FullStatePrefix           string        `key:"full_state_channel_prefix" doc:"Show each map as a whole also in the stream channel with this prefix, whose namespace has no other channels."`
	FullStateInterval         time.Duration `key:"full_state_tick_interval" min:"0" max:"1h" doc:"What changes within this time makes one publication of the whole map; 10ms to 1h, 0 for 250ms."`
}

// SharedPollOptions are used with the shared_poll subscription type.
type SharedPollOptions struct {
	ProxyName               string        `key:"proxy_name" doc:"Proxy to poll; by default channel.proxy.shared_poll_refresh."`
	RefreshInterval         time.Duration `key:"refresh_interval" min:"0" doc:"Poll period; 0 for 10s."`
	BackpressureMaxInterval time.Duration `key:"backpressure_max_interval" min:"0" doc:"Lets the poll period grow up to this while calls take more than half of it; 0 for a constant period."`
	RefreshBatchSize        int           `key:"refresh_batch_size" min:"0" doc:"Keys per poll; 0 for 1000."`
	KeepLatestData          bool          `key:"keep_latest_data" doc:"Keep the latest value of each tracked key in memory: clients that begin to track it get it at once, and may get differences."`
	MaxKeysPerConnection    int           `key:"max_keys_per_connection" min:"0" doc:"Keys tracked by a connection; 0 for 5000."`
	Mode                    string        `key:"mode" enum:"versionless|versioned" doc:"By default versionless."`
	ChannelShutdownDelay    time.Duration `key:"channel_shutdown_delay" doc:"Linger after the last key; 0 for 1s, negative for none."`
	TrackExpiredExtraDelay  time.Duration `key:"track_expired_extra_delay" min:"0" doc:"Grace for expired signatures; 0 for 25s."`
	PublishEnabled          bool          `key:"publish_enabled" doc:"Allow the API method shared_poll_publish; versioned mode only."`
	Notification            NotifyBatch   `key:"notification" doc:"Replaces what shared_poll.notification says; 0 for that."`
}

// NotifyBatch says how keys of notifications gather, so that one call asks for several.
type NotifyBatch struct {
	BatchMaxSize  int           `key:"batch_max_size" opt:"reload" min:"0" doc:"Keys of a channel that notifications name wait until they are this many; 0 for refresh_batch_size if batch_max_delay is set. By default they do not wait."`
	BatchMaxDelay time.Duration `key:"batch_max_delay" opt:"reload" min:"0" max:"1m" doc:"Longest wait for batch_max_size; at most 1m, 0 for 100ms if batch_max_size is more than 1."`
}

// PollNotification is how applications notify all nodes of keys that have changed.
type PollNotification struct {
	Enabled bool          `key:"enabled" doc:"Poll keys at once that applications name in messages to a PUB/SUB channel."`
	Type    string        `key:"type" doc:"redis or nats; must be set."`
	Channel string        `key:"channel" def:"shared_poll_notify" doc:"PUB/SUB channel in Redis, or subject in NATS; the name is used as it is, without a prefix."`
	Redis   engines.Redis `key:"redis"`
	NATS    NATSServer    `key:"nats"`
	NotifyBatch
}

// SharedPoll has the common keys of all shared poll channels.
type SharedPoll struct {
	HMACSecretKey          string `key:"hmac_secret_key" opt:"secret,reload" doc:"Secret of track signatures."`
	HMACPreviousSecretKey  string `key:"hmac_previous_secret_key" opt:"secret,reload" doc:"Second accepted secret, for rotation."`
	HMACPreviousValidUntil int64  `key:"hmac_previous_secret_key_valid_until" opt:"reload" min:"0" doc:"Latest iat of signatures with the previous secret, Unix seconds; 0 for no limit."`
	ConcurrencyLimit       int    `key:"concurrency_limit" min:"0" doc:"Backend calls at a time and node; 0 for 64."`

	Notification PollNotification `key:"notification" doc:"Notifications of keys that have changed (docs/shared-poll.md)."`
}
