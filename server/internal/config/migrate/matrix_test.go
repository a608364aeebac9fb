package migrate

// feature is a row of the support matrix.
type feature struct {
	name string
	// keys switch it on, or configure it. A list in a key is written as channel.namespaces[].
	keys []string
	note string // what to know of it
}

type group struct {
	name     string
	features []feature
}

// options are keys of channel options in both places.
func options(names ...string) (keys []string) {
	for _, n := range names {
		keys = append(keys, "channel.without_namespace."+n, "channel.namespaces[]."+n)
	}
	return keys
}

// groups are the features of Centrifugo v6.
var groups = []group{
	{"Transports", []feature{
		{"WebSocket, JSON and Protobuf, compression", []string{"websocket.disabled", "websocket.compression"}, ""},
		{"WebSocket over HTTP/2", []string{"http_server.h2c_external"}, ""},
		{"SSE and HTTP streaming, emulation", []string{"sse.enabled", "http_stream.enabled", "emulation.handler_prefix"}, ""},
		{"WebTransport", []string{"webtransport.enabled"}, ""},
		{"Unidirectional SSE and HTTP streaming", []string{"uni_sse.enabled", "uni_http_stream.enabled", "uni_sse.connect_code_to_http_response.enabled",
			"client.connect_code_to_unidirectional_disconnect.enabled"}, ""},
		{"Unidirectional WebSocket", []string{"uni_websocket.enabled"}, ""},
		{"Unidirectional gRPC", []string{"uni_grpc.enabled"}, ""},
		{"HTTP/3", []string{"http_server.http3.enabled"}, ""},
	}},
	{"Authentication", []feature{
		{"Connection tokens: HMAC, RSA, ECDSA", []string{"client.token.hmac_secret_key", "client.token.rsa_public_key", "client.token.ecdsa_public_key"}, "Gyro verifies EdDSA as well."},
		{"Subscription tokens, also with keys of their own", []string{"client.subscription_token.enabled"}, ""},
		{"Keys from a JWKS endpoint", []string{"client.token.jwks_public_endpoint", "client.subscription_token.jwks_public_endpoint"},
			"Gyro takes several providers as well, see [JWKS](tokens.md#jwks)."},
		{"Anonymous clients", []string{"client.allow_anonymous_connect_without_token"}, ""},
		{"User by a header of a reverse proxy", []string{"client.user_id_http_header"}, ""},
		{"Channel capabilities (Centrifugo PRO)", []string{"client.token.hmac_secret_key", "client.proxy.connect.enabled"},
			"All objects that match give their rights; an unknown right is an error, see [capabilities](permissions.md#capabilities)."},
		{"Personal channels", []string{"client.subscribe_to_user_personal_channel.enabled"}, ""},
		{"Connect proxy", []string{"client.proxy.connect.enabled"}, ""},
		{"Refresh proxy", []string{"client.proxy.refresh.enabled"}, ""},
	}},
	{"Channels", []feature{
		{"Namespaces, private and user-limited channels, permissions", append(options("allow_subscribe_for_client", "allow_user_limited_channels", "channel_regex"), "channel.private_prefix"), ""},
		{"History, positioning, recovery (stream and cache)", options("history_size", "force_positioning", "force_recovery", "force_recovery_mode"), ""},
		{"Presence, join and leave messages", options("presence", "join_leave"), ""},
		{"Delta compression, filters by tags", options("allowed_delta_types", "allow_tags_filter"), ""},
		{"Subscribe proxy", options("subscribe_proxy_enabled"), ""},
		{"Publish proxy", options("publish_proxy_enabled"), ""},
		{"Refresh of subscriptions by a proxy", options("sub_refresh_proxy_enabled"), ""},
		{"Subscription streams by a proxy", options("subscribe_stream_proxy_enabled"), ""},
		{"Map channels, presence maps", append(options("map.mode", "map.publish_proxy_enabled", "map.remove_proxy_enabled",
			"map_clients_presence_channel_prefix", "map_users_presence_channel_prefix"), "map_broker.redis.address"),
			"Also with Redis Cluster. Entries in Redis are not shared with Centrifugo: move one kind of node after the other to a prefix of its own, or clear the maps."},
		{"Full-state channels of maps (Centrifugo PRO)", options("map.full_state_channel_prefix", "map.full_state_tick_interval"), ""},
		{"Maps in the memory of nodes, several map brokers (Centrifugo PRO)", append(options("map.broker_name"), "map_broker.cache.enabled", "map_brokers[].cache.enabled"),
			"The cache is also bounded in bytes, and keeps maps while clients of the node are subscribed to them."},
		{"Shared poll channels", append(options("subscription_type", "shared_poll.mode"), "channel.proxy.shared_poll_refresh.endpoint", "shared_poll.hmac_secret_key", "shared_poll.notification.enabled"),
			"A missing epoch in an answer means the same as before, see [shared poll](shared-poll.md#versions)."},
	}},
	{"Backends", []feature{
		{"Server API over HTTP, batch and legacy endpoint included", []string{"http_api.key", "http_api.error_mode"}, ""},
		{"Connections API (Centrifugo PRO)", []string{"http_api.key"}, "By user, client, channel, labels and expression; the variables of expressions are in [connections](connections.md#expressions)."},
		{"User status (Centrifugo PRO)", []string{"user_status.enabled", "user_status.redis.reuse_from_engine"}, "Also in memory; what Centrifugo has in Redis is not read, see [user status](user-status.md)."},
		{"Snapshots (Centrifugo PRO)", []string{"http_api.key"}, "As lines of JSON, without ClickHouse, see [snapshots](connections.md#snapshots)."},
		{"Server API over gRPC", []string{"grpc_api.enabled"}, "Also serves the standard health service, which needs no key."},
		{"RPC proxy", []string{"rpc.without_namespace.proxy_enabled", "rpc.namespaces[].proxy_enabled"}, ""},
		{"Consumers: PostgreSQL, Kafka, Redis streams, NATS JetStream, Google Pub/Sub, AWS SQS, Azure Service Bus", []string{"consumers[].enabled"},
			"Messages that fail for an hour are given up, see [consumers](consumers.md#messages-that-fail)."},
	}},
	{"Engines", []feature{
		{"Memory", []string{"engine.type"}, ""},
		{"Redis: shards, Sentinel, Cluster", []string{"engine.redis.address", "engine.redis.sentinel_address", "engine.redis.cluster_address"}, "Same keys and payloads: streams and presence are shared with Centrifugo."},
		{"NATS", []string{"broker.nats.url", "broker.nats.raw_mode.enabled"}, "Same subjects and payloads."},
		{"PostgreSQL", []string{"broker.postgres.dsn", "brokers[].postgres.dsn", "map_broker.postgres.dsn"}, "Tables and functions are those of Centrifugo with further columns; nodes of both do not share a database, see [PostgreSQL](postgres.md)."},
		{"PostgreSQL: read replicas", []string{"broker.postgres.replica.enabled", "brokers[].postgres.replica.enabled", "map_broker.postgres.replica.enabled"}, "An answer counts only if it is as new as what the node has seen, see [replicas](postgres.md#replicas)."},
		{"PostgreSQL: fan-out", []string{"broker.postgres.broker_fanout.enabled", "brokers[].postgres.broker_fanout.enabled", "map_broker.postgres.broker_fanout.enabled"}, "Over Redis or NATS, see [fan-out](postgres.md#fan-out)."},
		{"Separate controller", []string{"controller.enabled"}, "Not needed with a PostgreSQL broker, which carries control messages itself."},
	}},
	{"Operation", []feature{
		{"TLS, client certificates", []string{"http_server.tls.enabled", "http_server.internal_tls.enabled"}, "Changed files are used without a restart; further keys, see [TLS](tls.md)."},
		{"Certificates by ACME", []string{"http_server.tls_autocert.enabled"}, "Obtained when the server starts, for the hosts of host_whitelist, which is required; see [TLS](tls.md#acme)."},
		{"Metrics for Prometheus", []string{"prometheus.enabled", "prometheus.native_histograms", "prometheus.recovered_publications_histogram"}, "See [below](#metrics)."},
		{"Metrics for Graphite", []string{"graphite.enabled"}, "Paths are the same with prometheus.namespace centrifugo; what a push that fails would have told comes with the next one, see [Graphite](metrics.md#graphite)."},
		{"OpenTelemetry traces", []string{"opentelemetry.enabled", "opentelemetry.api", "opentelemetry.consuming", "opentelemetry.google_cloud_adc_auth"}, "Clients and proxies can be traced, too, see [tracing](tracing.md)."},
		{"OpenTelemetry metrics", []string{"opentelemetry.metrics"}, "Also the channel_namespace and client_name labels of the extended edition, see [metrics](metrics.md)."},
		{"Health endpoint", []string{"health.enabled"}, "Behaves differently, see [probes](#probes)."},
		{"Admin web interface", []string{"admin.enabled"}, "Needs admin.password and admin.secret to start, or admin.insecure. Sessions end after admin.session_ttl, by default 12 hours, see [the admin web interface](admin.md)."},
		{"Swagger UI", []string{"swagger.enabled"}, "The document is OpenAPI 3.1 instead of 2.0."},
		{"Profiling endpoints", []string{"debug.enabled"}, ""},
		{"Reload by SIGHUP, .env file, variables, flags", []string{"pid_file"}, "`CENTRIFUGO_` variables are read; `GYRO_` ones win."},
	}},
}
