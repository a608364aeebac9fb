package config

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// Channel has namespaces and rules of names.
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
	WithoutNamespace      ChannelOptions `key:"without_namespace" doc:"Options of channels without a namespace."`
	Namespaces            []Namespace    `key:"namespaces" doc:"Namespaces: sets of options for the channels whose names begin with the name of the namespace."`
	HistoryMetaTTL        time.Duration  `key:"history_meta_ttl" def:"720h" opt:"seconds" doc:"How long the position of a stream outlives its publications, in namespaces that set no time."`
	PublicationDataFormat string         `key:"publication_data_format" enum:"json|json_object|binary" doc:"Format of payloads in namespaces that set none. Empty: no check, but clients publish only JSON."`
	MaxLength             int            `key:"max_length" opt:"restart" def:"255" min:"1" doc:"Longest name of a channel, in bytes, from clients, tokens and backends alike."`
	PrivatePrefix         string         `key:"private_prefix" def:"$" doc:"Start of the names of private channels, which need a subscription token. Empty: no private channels."`
	NamespaceBoundary     string         `key:"namespace_boundary" def:":" doc:"Text that ends the namespace in the name of a channel."`
	UserBoundary          string         `key:"user_boundary" def:"#" doc:"Text that begins the list of users in the name of a user-limited channel."`
	UserSeparator         string         `key:"user_separator" def:"," doc:"Text between users in that list."`
}

// Namespace is a named set of channel options.
type Namespace struct {
	Name string `key:"name" doc:"Unique name. A channel is in the namespace if its name begins with this name and channel.namespace_boundary."`
	ChannelOptions
}

// ChannelOptions say how a channel behaves. The tag grant names the field of gyro.SubscribeOptions that an option sets
// (package channels).
type ChannelOptions struct {
	Presence           bool   `key:"presence" grant:"Presence" doc:"Keep the list of clients that are subscribed to each channel, for presence commands and the server API."`
	JoinLeave          bool   `key:"join_leave" grant:"EmitJoinLeave" doc:"Publish join and leave messages when clients subscribe and unsubscribe."`
	ForcePushJoinLeave bool   `key:"force_push_join_leave" grant:"PushJoinLeave" doc:"Send join and leave messages to all subscribers, not only to those that ask for them."`
	MapClientsPresence string `key:"map_clients_presence_channel_prefix" doc:"Start of the names of map channels that have an entry for each connection that is subscribed. The prefix begins with a namespace of type map_clients; the name of the channel follows it. Empty: none."`
	MapUsersPresence   string `key:"map_users_presence_channel_prefix" doc:"Start of the names of map channels that have an entry for each user that is subscribed. The prefix begins with a namespace of type map_users; the name of the channel follows it. Empty: none."`

	HistorySize       int           `key:"history_size" min:"0" grant:"-" doc:"Number of publications that are kept of each channel. 0: no history. Needs history_ttl."`
	HistoryTTL        time.Duration `key:"history_ttl" opt:"seconds" min:"0" grant:"-" doc:"How long publications are kept after the newest one of the channel. 0: no history. Needs history_size."`
	HistoryMetaTTL    time.Duration `key:"history_meta_ttl" opt:"seconds" min:"0" grant:"HistoryMetaTTL" doc:"How long the position of a stream outlives its publications. 0: channel.history_meta_ttl."`
	ForcePositioning  bool          `key:"force_positioning" grant:"Positioned" doc:"Check for all subscribers that they miss no publication; a subscriber that missed one subscribes again. Needs history."`
	AllowPositioning  bool          `key:"allow_positioning" grant:"-" doc:"Do this check for subscribers that ask for it. Needs history."`
	ForceRecovery     bool          `key:"force_recovery" grant:"Recoverable" doc:"Send subscribers that return the publications that they missed. Needs history."`
	AllowRecovery     bool          `key:"allow_recovery" grant:"-" doc:"Do so for subscribers that ask for it. Needs history."`
	ForceRecoveryMode string        `key:"force_recovery_mode" enum:"stream|cache" grant:"-" doc:"Publications that a returning subscriber gets: with stream all that it missed, with cache the newest one alone. Empty: stream."`
	AutoCacheRecover  bool          `key:"auto_cache_recover" grant:"AutoRecover" doc:"With cache, send the newest publication on every subscribe, not only to clients that return. Needs force_recovery."`

	BrokerName          string `key:"broker_name" doc:"Name of an enabled element of brokers that carries these channels. Empty: broker, or engine if broker is not enabled."`
	PresenceManagerName string `key:"presence_manager_name" doc:"Name of an enabled element of presence_managers that keeps the presence. Empty: presence_manager, or engine if presence_manager is not enabled."`

	AllowedDeltaTypes      []string      `key:"allowed_delta_types" enum:"fossil" grant:"-" doc:"Algorithms with which subscribers may get publications as differences. Empty: none."`
	DeltaPublish           bool          `key:"delta_publish" doc:"Send publications of clients and of the server API as differences to subscribers that agreed on them. If a proxy decides on a publication, its answer decides on that as well."`
	AllowTagsFilter        bool          `key:"allow_tags_filter" grant:"AllowTagsFilter" doc:"Let subscribers filter publications by tags."`
	AllowChannelCompaction bool          `key:"allow_channel_compaction" grant:"AllowCompaction" doc:"Let clients get a number for the channel, which replaces its name in messages to them."`
	ClientPublishDebounce  time.Duration `key:"client_publish_debounce_interval" min:"0" max:"1h" grant:"PublishDebounce" doc:"Time in which clients publish only their newest value, in a map the newest of each key. Clients are told it in milliseconds, rounded up; the server does not enforce it. 0: clients publish all."`
	PublicationDataFormat  string        `key:"publication_data_format" enum:"json|json_object|binary" doc:"Format of payloads: json, json_object or binary (anything). Empty: channel.publication_data_format, else anything but empty from backends, and JSON from clients."`
	ChannelRegex           string        `key:"channel_regex" doc:"Regular expression that the name after the namespace must match. Empty: any ASCII characters."`

	BatchMaxDelay    time.Duration `key:"batch_max_delay" min:"0" max:"1m" grant:"BatchMaxDelay" doc:"Hold messages to subscribers for this time after the first one, so that they leave in one write. 0: 1s if batch_max_size is set, else messages are not held."`
	BatchMaxSize     int           `key:"batch_max_size" min:"0" max:"64" grant:"BatchMaxSize" doc:"Number of held messages with which they leave before batch_max_delay. 0: 64 if batch_max_delay is set, else messages are not held."`
	BatchFlushLatest bool          `key:"batch_flush_latest" grant:"BatchFlushLatest" doc:"Of held messages, send the newest publication alone, in a map the newest of each key. Needs batch_max_delay or batch_max_size. Subscriptions with positioning or recovery get all publications."`

	AllowSubscribeForClient    bool `key:"allow_subscribe_for_client" doc:"Clients with a user may subscribe."`
	AllowSubscribeForAnonymous bool `key:"allow_subscribe_for_anonymous" doc:"With allow_subscribe_for_client, clients without a user may subscribe as well."`
	AllowPublishForClient      bool `key:"allow_publish_for_client" doc:"Clients with a user may publish."`
	AllowPublishForSubscriber  bool `key:"allow_publish_for_subscriber" doc:"Clients with a user that are subscribed may publish."`
	AllowPublishForAnonymous   bool `key:"allow_publish_for_anonymous" doc:"With one of the two options above, clients without a user may publish as well."`
	AllowPresenceForClient     bool `key:"allow_presence_for_client" doc:"Clients with a user may ask for presence."`
	AllowPresenceForSubscriber bool `key:"allow_presence_for_subscriber" doc:"Clients with a user that are subscribed may ask for presence."`
	AllowPresenceForAnonymous  bool `key:"allow_presence_for_anonymous" doc:"With one of the two options above, clients without a user may ask for presence as well."`
	AllowHistoryForClient      bool `key:"allow_history_for_client" doc:"Clients with a user may read the history."`
	AllowHistoryForSubscriber  bool `key:"allow_history_for_subscriber" doc:"Clients with a user that are subscribed may read the history."`
	AllowHistoryForAnonymous   bool `key:"allow_history_for_anonymous" doc:"With one of the two options above, clients without a user may read the history as well."`
	AllowUserLimitedChannels   bool `key:"allow_user_limited_channels" doc:"Names of channels may list users after channel.user_boundary; these users may subscribe, and no others without a token."`

	SubscribeProxyEnabled       bool   `key:"subscribe_proxy_enabled" doc:"Ask the backend whether a client may subscribe."`
	SubscribeProxyName          string `key:"subscribe_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.subscribe, or the name of an element of proxies."`
	PublishProxyEnabled         bool   `key:"publish_proxy_enabled" doc:"Ask the backend whether a client may publish."`
	PublishProxyName            string `key:"publish_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.publish, or the name of an element of proxies."`
	SubRefreshProxyEnabled      bool   `key:"sub_refresh_proxy_enabled" doc:"Ask the backend to prolong subscriptions that expire."`
	SubRefreshProxyName         string `key:"sub_refresh_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.sub_refresh, or the name of an element of proxies."`
	CacheEmptyProxyEnabled      bool   `key:"cache_empty_proxy_enabled" doc:"When a client needs the newest publication and there is none, ask the backend to publish it. Needs history_size and history_ttl."`
	CacheEmptyProxyName         string `key:"cache_empty_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.cache_empty, or the name of an element of proxies."`
	SubscribeStreamProxyEnabled bool   `key:"subscribe_stream_proxy_enabled" doc:"Open a gRPC stream to the backend for each subscription, which decides on it and sends its publications."`
	SubscribeStreamProxyName    string `key:"subscribe_stream_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.subscribe_stream, or the name of an element of proxies. It must have a gRPC endpoint."`
	SubscribeStreamProxyBidi    bool   `key:"subscribe_stream_proxy_bidirectional" doc:"Send publications of clients into the stream."`

	SubscriptionType string            `key:"subscription_type" enum:"stream|map|map_clients|map_users|shared_poll" grant:"-" doc:"Type of the channels, for which clients must ask. Empty: stream."`
	Map              MapOptions        `key:"map"`
	SharedPoll       SharedPollOptions `key:"shared_poll"`
}

// MapOptions are for map channels.
type MapOptions struct {
	Mode                      string        `key:"mode" enum:"ephemeral|recoverable|persistent" doc:"How long entries and changes are kept (docs/maps.md). Required for map types."`
	BrokerName                string        `key:"broker_name" doc:"Name of an enabled element of map_brokers that keeps these maps. Empty: map_broker."`
	KeyTTL                    time.Duration `key:"key_ttl" doc:"How long an entry lives after it was set. Required in the modes ephemeral and recoverable; in mode persistent entries do not expire."`
	StreamSize                int           `key:"stream_size" doc:"Number of changes that are kept of each map. 0: 100."`
	StreamTTL                 time.Duration `key:"stream_ttl" doc:"How long changes are kept after the newest one. 0: 1m."`
	MetaTTL                   time.Duration `key:"meta_ttl" doc:"How long the position of a map outlives its newest change. 0: ten times stream_ttl, at least key_ttl; in mode persistent for ever."`
	RemoveOnUnsubscribe       bool          `key:"remove_client_on_unsubscribe" doc:"Remove the entry whose key is the ID of a client when the client unsubscribes or disconnects."`
	ClientKey                 string        `key:"client_key" enum:"client_id|user_id" doc:"Key of entries that a client sets: client_id is its ID, user_id the ID of its user. Empty: the client chooses the key."`
	ClientMaxEntries          int           `key:"client_max_entries" doc:"Number of entries from which on clients cannot add a key to a map. 0: 10000, with client_key user_id no limit. Negative: no limit. Centrifugo has no such key."`
	AllowPublishForClient     bool          `key:"allow_publish_for_client" doc:"Clients with a user may set entries."`
	AllowPublishForSubscriber bool          `key:"allow_publish_for_subscriber" doc:"Clients with a user that are subscribed may set entries."`
	AllowPublishForAnonymous  bool          `key:"allow_publish_for_anonymous" doc:"With one of the two options above, clients without a user may set entries as well."`
	AllowRemoveForClient      bool          `key:"allow_remove_for_client" doc:"Clients with a user may remove entries."`
	AllowRemoveForSubscriber  bool          `key:"allow_remove_for_subscriber" doc:"Clients with a user that are subscribed may remove entries."`
	AllowRemoveForAnonymous   bool          `key:"allow_remove_for_anonymous" doc:"With one of the two options above, clients without a user may remove entries as well."`
	PublishProxyEnabled       bool          `key:"publish_proxy_enabled" doc:"Ask the backend whether a client may set an entry."`
	PublishProxyName          string        `key:"publish_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.map_publish, or the name of an element of proxies."`
	RemoveProxyEnabled        bool          `key:"remove_proxy_enabled" doc:"Ask the backend whether a client may remove an entry."`
	RemoveProxyName           string        `key:"remove_proxy_name" def:"default" doc:"Proxy for it: default for channel.proxy.map_remove, or the name of an element of proxies."`
	DefaultPageSize           int           `key:"default_page_size" min:"0" doc:"Number of entries in a page if the client names none. 0: 100."`
	MinPageSize               int           `key:"min_page_size" min:"0" doc:"Smallest page that a client gets, if it asks for less. 0: 100."`
	MaxPageSize               int           `key:"max_page_size" min:"0" doc:"Largest page that a client gets, if it asks for more. 0: 1000."`
	LiveTransitionLimit       int           `key:"live_transition_max_publication_limit" doc:"Largest number of changes that may be missing when a catch-up ends; they come with the answer. 0: max_page_size."`
	CatchUpTimeout            time.Duration `key:"subscribe_catch_up_timeout" doc:"Longest time for a catch-up. A slower client is disconnected with 3008. 0: 5s. Negative: no limit."`
	FullStatePrefix           string        `key:"full_state_channel_prefix" doc:"Start of the names of stream channels whose publications are the whole map as JSON. The prefix begins with a namespace that has no other channels; the name of the map follows it. Empty: none."`
	FullStateInterval         time.Duration `key:"full_state_tick_interval" min:"0" max:"1h" doc:"Time whose changes make one publication of the whole map, at least 10ms. 0: 250ms."`
}

// SharedPollOptions are for shared poll channels.
type SharedPollOptions struct {
	ProxyName               string        `key:"proxy_name" doc:"Proxy that is asked for values: the name of an element of proxies. Empty: channel.proxy.shared_poll_refresh."`
	RefreshInterval         time.Duration `key:"refresh_interval" min:"0" doc:"Time between two questions for a key. 0: 10s."`
	BackpressureMaxInterval time.Duration `key:"backpressure_max_interval" min:"0" doc:"Largest interval. refresh_interval grows up to it while calls take more than half of the interval. 0: the interval does not grow."`
	RefreshBatchSize        int           `key:"refresh_batch_size" min:"0" doc:"Largest number of keys in a call. 0: 1000."`
	KeepLatestData          bool          `key:"keep_latest_data" doc:"Keep the newest value of each tracked key in memory. Clients get it at once when they begin to track the key, and may get differences."`
	MaxKeysPerConnection    int           `key:"max_keys_per_connection" min:"0" doc:"Largest number of keys of the channel that a connection tracks. 0: 5000."`
	Mode                    string        `key:"mode" enum:"versionless|versioned" doc:"With versioned, the backend gives versions with its values; with versionless, the server compares values. Empty: versionless."`
	ChannelShutdownDelay    time.Duration `key:"channel_shutdown_delay" doc:"How long the node remembers a key that no client tracks any more, and the channel after its last subscriber. 0: 1s. Negative: not at all."`
	TrackExpiredExtraDelay  time.Duration `key:"track_expired_extra_delay" min:"0" doc:"How long keys are tracked after their signature has expired. 0: 25s."`
	PublishEnabled          bool          `key:"publish_enabled" doc:"Allow the method shared_poll_publish of the server API. Needs mode versioned."`
	Notification            NotifyBatch   `key:"notification" doc:"Settings that replace shared_poll.notification for these channels. 0: those of shared_poll.notification."`
}

// NotifyBatch gathers notified keys, so that one call asks for several.
type NotifyBatch struct {
	BatchMaxSize  int           `key:"batch_max_size" opt:"reload" min:"0" doc:"Number of notified keys of a channel with which the server asks for them before batch_max_delay. 0: refresh_batch_size if batch_max_delay is set, else keys are asked for at once."`
	BatchMaxDelay time.Duration `key:"batch_max_delay" opt:"reload" min:"0" max:"1m" doc:"Longest time for which a notified key waits for others. 0: 100ms if batch_max_size is more than 1, else keys do not wait."`
}

// PollNotification is how applications notify nodes of changed keys.
type PollNotification struct {
	Enabled bool          `key:"enabled" doc:"Ask for keys at once when an application names them in a message to a PUB/SUB channel."`
	Type    string        `key:"type" doc:"System of the PUB/SUB channel, redis or nats. Required."`
	Channel string        `key:"channel" def:"shared_poll_notify" doc:"Name of the PUB/SUB channel in Redis, or of the subject in NATS, without any prefix; at most 255 bytes."`
	Redis   engines.Redis `key:"redis"`
	NATS    NATSServer    `key:"nats"`
	NotifyBatch
}

// SharedPoll has the common keys of shared poll channels.
type SharedPoll struct {
	HMACSecretKey          string `key:"hmac_secret_key" opt:"secret,reload" doc:"Secret of the signatures with which clients track keys. Required for shared poll channels."`
	HMACPreviousSecretKey  string `key:"hmac_previous_secret_key" opt:"secret,reload" doc:"Further accepted secret, for the change of the secret. Empty: none."`
	HMACPreviousValidUntil int64  `key:"hmac_previous_secret_key_valid_until" opt:"reload" min:"0" doc:"Unix time in seconds: the previous secret is valid for signatures whose iat is not later. 0: no limit."`
	ConcurrencyLimit       int    `key:"concurrency_limit" min:"0" doc:"Number of calls to the backend that run at the same time, in each node; further calls wait. 0: 64."`

	Notification PollNotification `key:"notification" doc:"Notifications of changed keys (docs/shared-poll.md)."`
}
