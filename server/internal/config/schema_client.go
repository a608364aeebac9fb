package config

import "time"

// Client has the options of client connections.
type Client struct {
	Proxy struct {
		Connect SwitchedProxy `key:"connect"`
		Refresh SwitchedProxy `key:"refresh"`
	} `key:"proxy" opt:"reload"`
	AllowedOrigins    []string          `key:"allowed_origins" doc:"Patterns of origins that browsers may connect from, scheme included; * for all."`
	Token             Token             `key:"token" opt:"reload"`
	SubscriptionToken SubscriptionToken `key:"subscription_token" opt:"reload"`

	AllowAnonymousConnect   bool `key:"allow_anonymous_connect_without_token" opt:"reload" doc:"Connections without a token are anonymous instead of refused."`
	DisallowAnonymousTokens bool `key:"disallow_anonymous_connection_tokens" opt:"reload" doc:"Refuse connection tokens without a user."`

	PingInterval           time.Duration   `key:"ping_interval" def:"25s" doc:"Period of pings to clients, as exact as 50ms; negative for none. Clients are told its whole seconds, at least 1."`
	PongTimeout            time.Duration   `key:"pong_timeout" def:"8s" doc:"Time to wait for a pong, less than ping_interval; negative for no check."`
	ExpiredCloseDelay      time.Duration   `key:"expired_close_delay" def:"25s" doc:"Time for a client to refresh an expired connection."`
	ExpiredSubCloseDelay   time.Duration   `key:"expired_sub_close_delay" def:"25s" doc:"Time for a client to refresh an expired subscription."`
	StaleCloseDelay        time.Duration   `key:"stale_close_delay" def:"10s" doc:"Time for a client to send its connect command."`
	ChannelLimit           int             `key:"channel_limit" def:"128" min:"1" doc:"Subscriptions per connection."`
	QueueMaxSize           int             `key:"queue_max_size" def:"1048576" min:"1" doc:"Bytes waiting for one connection; above, it is disconnected as slow. A greater reply is error 106 instead, and a recovery that would need one is answered with recovered: false."`
	PresenceInterval       time.Duration   `key:"presence_update_interval" def:"27s" doc:"Period of presence updates and expiration checks."`
	Concurrency            int             `key:"concurrency" doc:"Commands of one connection that are processed in parallel, if more than 1."`
	PositionCheckDelay     time.Duration   `key:"channel_position_check_delay" def:"40s" doc:"How often each channel with positioned subscriptions is compared with its stream."`
	PositionMaxLag         time.Duration   `key:"channel_position_max_time_lag" doc:"If positive, subscribers resubscribe when a publication arrives that is older."`
	ConnectionLimit        int             `key:"connection_limit" opt:"reload" doc:"Connections per node; 0 for no limit. A reload sets one only if there was this limit or connection_rate_limit at start."`
	UserConnectionLimit    int             `key:"user_connection_limit" doc:"Connections of a user per node; 0 for no limit."`
	ConnectionRateLimit    int             `key:"connection_rate_limit" doc:"New connections per second and node; 0 for no limit."`
	IncludeServerTime      bool            `key:"connect_include_server_time" doc:"Tell the server's time in the connect reply."`
	HistoryMaxLimit        int             `key:"history_max_publication_limit" def:"300" doc:"Publications per history call of a client."`
	RecoveryMaxLimit       int             `key:"recovery_max_publication_limit" def:"300" doc:"Publications per recovery."`
	SkipTokenSignature     bool            `key:"insecure_skip_token_signature_verify" opt:"reload" doc:"Accept tokens with any signature. For development."`
	UserIDHTTPHeader       string          `key:"user_id_http_header" doc:"Header in which an authenticating reverse proxy names the user."`
	RefreshProxyGrace      time.Duration   `key:"refresh_proxy_grace" def:"10m" opt:"reload" doc:"How long a connection or subscription lives on while its refresh proxy, asked once a minute, gives no answer; then it ends with 3005 or 2501. 0 for no bound."`
	ForwardedHeadersMax    int             `key:"forwarded_headers_max_size" def:"8192" min:"0" opt:"reload" doc:"Most bytes that proxies forward of one client's headers, names and values together. Gyro leaves other headers out, those of the connect command first, and logs a line."`
	Insecure               bool            `key:"insecure" opt:"flag,reload" doc:"Connections without token are accepted, and may do what no rule allows. For development."`
	UserPersonalChannel    PersonalChannel `key:"subscribe_to_user_personal_channel" opt:"reload"`
	UniDisconnectOnConnect struct {
		Enabled    bool                  `key:"enabled" doc:"Map connect errors to disconnects on unidirectional transports."`
		Transforms []DisconnectTransform `key:"transforms" doc:"Disconnects by error code; of several with the same code the first counts. Without one, 109 and 110 become 3005, 111 becomes 3013, 103 becomes 3507, and others 3004."`
	} `key:"connect_code_to_unidirectional_disconnect"`
}

// DisconnectTransform maps a code to a disconnect.
type DisconnectTransform struct {
	Code int          `key:"code" min:"0" max:"4294967295" doc:"Error code; required."`
	To   ToDisconnect `key:"to"`
}

// ToDisconnect is the disconnect that something becomes.
type ToDisconnect struct {
	Code   int    `key:"code" min:"0" max:"4294967295" doc:"Disconnect code; required."`
	Reason string `key:"reason" doc:"ASCII."`
}

// PersonalChannel subscribes each user to a channel of its own.
type PersonalChannel struct {
	Enabled          bool   `key:"enabled" doc:"Subscribe connections to their user's personal channel."`
	Namespace        string `key:"personal_channel_namespace" doc:"Namespace of personal channels."`
	SingleConnection bool   `key:"single_connection" doc:"Keep one connection per user; the namespace needs presence."`
}

// Token says how tokens are verified (docs/tokens.md). Package auth verifies by it.
type Token struct {
	HMACSecretKey          string    `key:"hmac_secret_key" opt:"secret" doc:"Secret of HS256, HS384 and HS512."`
	HMACPreviousSecretKey  string    `key:"hmac_previous_secret_key" opt:"secret" doc:"Second accepted secret, for rotation."`
	HMACPreviousValidUntil int64     `key:"hmac_previous_secret_key_valid_until" doc:"Unix seconds after which the previous secret is not accepted; 0 for no limit."`
	RSAPublicKey           string    `key:"rsa_public_key" doc:"PEM text of a PUBLIC KEY or CERTIFICATE, for RS256, RS384 and RS512."`
	ECDSAPublicKey         string    `key:"ecdsa_public_key" doc:"PEM text of a PUBLIC KEY or CERTIFICATE, for the ES algorithm that fits its curve."`
	EdDSAPublicKey         string    `key:"eddsa_public_key" doc:"PEM text of a PUBLIC KEY or CERTIFICATE with an Ed25519 key, for EdDSA. A key of Gyro alone."`
	JWKSPublicEndpoint     string    `key:"jwks_public_endpoint" doc:"URL of a JWKS (docs/tokens.md#jwks); the keys above are then ignored. {{name}} in its path or query stands for a named group of issuer_regex or audience_regex."`
	JWKS                   TokenJWKS `key:"jwks"`
	Audience               string    `key:"audience" doc:"Required audience."`
	AudienceRegex          string    `key:"audience_regex" doc:"Pattern of the audience; excludes audience."`
	Issuer                 string    `key:"issuer" doc:"Required issuer."`
	IssuerRegex            string    `key:"issuer_regex" doc:"Pattern of the issuer; excludes issuer."`
	UserIDClaim            string    `key:"user_id_claim" doc:"Claim with the user ID, instead of sub."`

	MetaFromClaim   map[string]string `key:"meta_from_claim" doc:"Members of the connection's meta that are taken from claims: paths of claims, and the names in meta (docs/tokens.md#meta-and-labels)."`
	LabelsFromClaim map[string]string `key:"labels_from_claim" doc:"Labels of the connection that are taken from claims: paths of claims, and names of labels (docs/tokens.md#meta-and-labels)."`

	SkipJWKSSafetyCheck bool `key:"insecure_skip_jwks_endpoint_safety_check" doc:"Accept JWKS templates that claims can bend at will."`
}

// TokenJWKS has the JWKS of several providers.
type TokenJWKS struct {
	Enabled   bool           `key:"enabled" doc:"Verify tokens by the providers below; the keys above are then ignored. Excludes jwks_public_endpoint."`
	Providers []JWKSProvider `key:"providers" doc:"Providers; the token's issuer says which one counts."`
}

// JWKSProvider is an issuer of tokens that publishes its keys.
type JWKSProvider struct {
	Name     string `key:"name" doc:"Unique name."`
	Enabled  bool   `key:"enabled" doc:"Accept its tokens."`
	Endpoint string `key:"endpoint" doc:"URL of its JWKS, without placeholders."`
	Issuer   string `key:"issuer" doc:"Issuer of its tokens; required. Several providers may have the same one if each has another audience."`
	Audience string `key:"audience" doc:"Audience of its tokens; empty for any."`

	MetaFromClaim   map[string]string `key:"meta_from_claim" doc:"As above, for its tokens; what both name is taken from here."`
	LabelsFromClaim map[string]string `key:"labels_from_claim" doc:"As above, for its tokens; what both name is taken from here."`

	TLS TLS `key:"tls"`
}

// SubscriptionToken is a separate configuration for subscription tokens.
type SubscriptionToken struct {
	Enabled bool `key:"enabled" opt:"restart" doc:"Use this section alone for subscription tokens. Without it, a reload takes over nothing of the section."`
	Token
}

// Proxy is a backend that answers events.
type Proxy struct {
	Endpoint        string        `key:"endpoint" doc:"http:// or https:// URL, or a gRPC target."`
	Timeout         time.Duration `key:"timeout" def:"1s" doc:"Limit of one call."`
	HTTPHeaders     []string      `key:"http_headers" doc:"Request headers to forward."`
	GRPCMetadata    []string      `key:"grpc_metadata" doc:"Metadata keys of gRPC clients to forward."`
	EmulatedHeaders []string      `key:"emulated_headers" doc:"Headers to forward from the connect command; untrusted."`
	BinaryEncoding  bool          `key:"binary_encoding" doc:"Payloads as base64."`
	IncludeConnMeta bool          `key:"include_connection_meta" doc:"Send the connection's meta."`
	MaxConcurrency  int           `key:"max_concurrency" def:"256" min:"1" max:"65536" doc:"Calls that are under way at most, in each node. Gyro's own key."`
	MaxQueue        int           `key:"max_queue" def:"16384" min:"0" max:"1048576" doc:"Calls that wait for others to end, within timeout; more fail at once. Gyro's own key."`
	MaxStreams      int           `key:"max_streams" def:"65536" min:"1" max:"16777216" doc:"Streams of subscriptions that are open at most, in each node. Gyro's own key."`
	Breaker         Breaker       `key:"breaker"`
	HTTP            HTTPProxy     `key:"http"`
	GRPC            GRPCProxy     `key:"grpc"`
}

// Breaker says when a backend that fails is no longer asked. Its keys are Gyro's own.
type Breaker struct {
	Failures int           `key:"failures" def:"20" min:"0" max:"1000000" doc:"After so many calls in a row that failed, calls fail without the backend being asked; 0 to ask it always. Gyro's own key."`
	OpenFor  time.Duration `key:"open_for" def:"1s" min:"1000000" doc:"After this time one call is tried, which decides about the next ones. Gyro's own key."`
}

// HTTPProxy has the options of HTTP endpoints.
type HTTPProxy struct {
	TLS                    TLS               `key:"tls"`
	StaticHeaders          map[string]string `key:"static_headers" opt:"secret" doc:"Headers to send; forwarded ones win."`
	StatusToCodeTransforms []StatusTransform `key:"status_to_code_transforms" doc:"What a status other than 200 becomes."`
}

// GRPCProxy has the options of gRPC endpoints.
type GRPCProxy struct {
	TLS              TLS               `key:"tls"`
	CredentialsKey   string            `key:"credentials_key" doc:"Metadata key of per-call credentials."`
	CredentialsValue string            `key:"credentials_value" opt:"secret" doc:"Their value."`
	Compression      bool              `key:"compression" doc:"gzip."`
	StaticMetadata   map[string]string `key:"static_metadata" opt:"secret" doc:"Metadata to send; forwarded ones win."`
}

// StatusTransform maps an HTTP status to an error or a disconnect.
type StatusTransform struct {
	StatusCode int `key:"status_code" doc:"HTTP status; required."`
	ToError    struct {
		Code      int    `key:"code" min:"0" max:"4294967295"`
		Message   string `key:"message" doc:"ASCII, at most 123 bytes."`
		Temporary bool   `key:"temporary"`
	} `key:"to_error"`
	ToDisconnect ToDisconnect `key:"to_disconnect"`
}

// SwitchedProxy is a proxy with a switch of its own.
type SwitchedProxy struct {
	Enabled bool `key:"enabled" doc:"Ask the backend."`
	Proxy
}

// NamedProxy is a proxy that namespaces refer to.
type NamedProxy struct {
	Name string `key:"name" doc:"Unique name; not default."`
	Proxy
}

// RPC has the options of client RPC calls.
type RPC struct {
	Proxy            Proxy          `key:"proxy"`
	WithoutNamespace RPCOptions     `key:"without_namespace"`
	Namespaces       []RPCNamespace `key:"namespaces" doc:"RPC namespaces."`
	Ping             struct {
		Enabled bool   `key:"enabled" doc:"Answer the method below with empty data."`
		Method  string `key:"method" def:"ping"`
	} `key:"ping"`
	NamespaceBoundary string `key:"namespace_boundary" def:":" doc:"Ends the namespace in a method's name."`
}

// RPCOptions of a namespace.
type RPCOptions struct {
	ProxyEnabled bool   `key:"proxy_enabled" doc:"The proxy answers."`
	ProxyName    string `key:"proxy_name" def:"default" doc:"default for rpc.proxy, else a name of proxies."`
}

// RPCNamespace is a named set of options.
type RPCNamespace struct {
	Name string `key:"name" doc:"Unique name."`
	RPCOptions
}
