package config

import "time"

// Client has the options of client connections.
type Client struct {
	Proxy struct {
		Connect SwitchedProxy `key:"connect"`
		Refresh SwitchedProxy `key:"refresh"`
	} `key:"proxy" opt:"reload"`
	AllowedOrigins    []string          `key:"allowed_origins" doc:"Glob patterns of origins whose pages may connect, such as https://*.example.com; * for all (docs/origins.md). Empty: no pages of browsers."`
	Token             Token             `key:"token" opt:"reload"`
	SubscriptionToken SubscriptionToken `key:"subscription_token" opt:"reload"`

	AllowAnonymousConnect   bool `key:"allow_anonymous_connect_without_token" opt:"reload" doc:"Accept connections without a token as anonymous."`
	DisallowAnonymousTokens bool `key:"disallow_anonymous_connection_tokens" opt:"reload" doc:"Refuse connection tokens without a user."`

	PingInterval           time.Duration   `key:"ping_interval" def:"25s" doc:"Time between pings to a client, exact to 50ms. Clients are told its whole seconds, at least 1. Negative: no pings."`
	PongTimeout            time.Duration   `key:"pong_timeout" def:"8s" doc:"Time in which a client must answer a ping, less than ping_interval. Negative: clients need not answer."`
	ExpiredCloseDelay      time.Duration   `key:"expired_close_delay" def:"25s" doc:"Time in which a client must refresh a connection that has expired."`
	ExpiredSubCloseDelay   time.Duration   `key:"expired_sub_close_delay" def:"25s" doc:"Time in which a client must refresh a subscription that has expired."`
	StaleCloseDelay        time.Duration   `key:"stale_close_delay" def:"10s" doc:"Time in which a client must send its connect command."`
	ChannelLimit           int             `key:"channel_limit" def:"128" min:"1" doc:"Largest number of subscriptions of a connection."`
	QueueMaxSize           int             `key:"queue_max_size" def:"1048576" min:"1" doc:"Largest number of bytes that wait for a connection. A client that would exceed it is disconnected with 3008. A single reply that is larger is error 106 instead, and a recovery that needs one is answered with recovered: false."`
	PresenceInterval       time.Duration   `key:"presence_update_interval" def:"27s" doc:"How often the presence of a client is renewed, and expired subscriptions are looked for."`
	Concurrency            int             `key:"concurrency" doc:"Number of commands of a connection that run at the same time. Replies may come in any order if it is more than 1. 0: 1."`
	PositionCheckDelay     time.Duration   `key:"channel_position_check_delay" def:"40s" doc:"How often each channel with positioned subscriptions is compared with its stream; at least 2.56s. Negative: only after the broker has reported a loss."`
	PositionMaxLag         time.Duration   `key:"channel_position_max_time_lag" doc:"Largest age of a publication at delivery. An older one makes positioned subscribers subscribe again. 0: no limit."`
	ConnectionLimit        int             `key:"connection_limit" opt:"reload" doc:"Largest number of connections of the node. 0: no limit. A reload can set a limit only if this or connection_rate_limit was set at start."`
	UserConnectionLimit    int             `key:"user_connection_limit" doc:"Largest number of connections of a user in the node; further ones are refused with 3504. Clients without a user have no limit. 0: no limit."`
	ConnectionRateLimit    int             `key:"connection_rate_limit" doc:"Largest number of new connections of the node per second. 0: no limit."`
	IncludeServerTime      bool            `key:"connect_include_server_time" doc:"Add the time of the server to the reply to a connect."`
	HistoryMaxLimit        int             `key:"history_max_publication_limit" def:"300" doc:"Largest number of publications in the answer to a history command of a client."`
	RecoveryMaxLimit       int             `key:"recovery_max_publication_limit" def:"300" doc:"Largest number of publications in a recovery. A client that missed more does not recover."`
	SkipTokenSignature     bool            `key:"insecure_skip_token_signature_verify" opt:"reload" doc:"Accept tokens without a check of their signature. For development."`
	UserIDHTTPHeader       string          `key:"user_id_http_header" doc:"HTTP header in which an authenticating reverse proxy names the user. Empty: none."`
	RefreshProxyGrace      time.Duration   `key:"refresh_proxy_grace" def:"10m" opt:"reload" doc:"How long a connection or subscription lives on while its refresh proxy gives no answer. The proxy is asked every 60 s; after this time, the connection ends with 3005, the subscription with 2501. Negative: no limit. Centrifugo has no such key."`
	ForwardedHeadersMax    int             `key:"forwarded_headers_max_size" def:"8192" min:"0" opt:"reload" doc:"Largest size of the headers of a client that proxies forward, names and values together, in bytes. Further headers are left out, those of the connect command first, and the log has a line. Centrifugo has no such key."`
	Insecure               bool            `key:"insecure" opt:"flag,reload" doc:"Accept connections without a token, and allow everything that rules would deny. For development."`
	UserPersonalChannel    PersonalChannel `key:"subscribe_to_user_personal_channel" opt:"reload"`
	UniDisconnectOnConnect struct {
		Enabled    bool                  `key:"enabled" doc:"Replace errors of connects by disconnects on unidirectional transports."`
		Transforms []DisconnectTransform `key:"transforms" doc:"Disconnects by the code of the error; of several with the same code the first one counts. Codes that are not listed: 109 and 110 become 3005, 111 becomes 3013, 103 becomes 3507, others 3004."`
	} `key:"connect_code_to_unidirectional_disconnect"`
}

// DisconnectTransform maps a code to a disconnect.
type DisconnectTransform struct {
	Code int          `key:"code" min:"0" max:"4294967295" doc:"Code of the error. Required."`
	To   ToDisconnect `key:"to"`
}

// ToDisconnect is the result of a transform.
type ToDisconnect struct {
	Code   int    `key:"code" min:"0" max:"4294967295" doc:"Code of the disconnect."`
	Reason string `key:"reason" doc:"Reason of the disconnect, ASCII."`
}

// PersonalChannel subscribes each user to a channel of its own.
type PersonalChannel struct {
	Enabled          bool   `key:"enabled" doc:"Subscribe each connection with a user to the personal channel of the user."`
	Namespace        string `key:"personal_channel_namespace" doc:"Namespace of the personal channels. Empty: none."`
	SingleConnection bool   `key:"single_connection" doc:"Keep only the newest connection of each user. The namespace needs presence."`
}

// Token is how tokens are verified (docs/tokens.md, package auth).
type Token struct {
	HMACSecretKey          string    `key:"hmac_secret_key" opt:"secret" doc:"Secret of tokens that are signed with HS256, HS384 or HS512."`
	HMACPreviousSecretKey  string    `key:"hmac_previous_secret_key" opt:"secret" doc:"Further accepted secret, for the change of the secret. Empty: none."`
	HMACPreviousValidUntil int64     `key:"hmac_previous_secret_key_valid_until" doc:"Unix time in seconds after which the previous secret is not accepted. 0: no limit."`
	RSAPublicKey           string    `key:"rsa_public_key" doc:"Public key or certificate as PEM text, for RS256, RS384 and RS512."`
	ECDSAPublicKey         string    `key:"ecdsa_public_key" doc:"Public key or certificate as PEM text, for the ES algorithm of its curve."`
	EdDSAPublicKey         string    `key:"eddsa_public_key" doc:"Public key or certificate as PEM text, with an Ed25519 key, for EdDSA. Centrifugo has no such key."`
	JWKSPublicEndpoint     string    `key:"jwks_public_endpoint" doc:"URL of a JWKS with the keys of tokens (docs/tokens.md#jwks). The keys above have no effect then. {{name}} in the path or the query is replaced by the group of that name in issuer_regex or audience_regex."`
	JWKS                   TokenJWKS `key:"jwks"`
	Audience               string    `key:"audience" doc:"Audience that a token must have. Empty: any."`
	AudienceRegex          string    `key:"audience_regex" doc:"Regular expression that the audience of a token must match. Excludes audience."`
	Issuer                 string    `key:"issuer" doc:"Issuer that a token must have. Empty: any."`
	IssuerRegex            string    `key:"issuer_regex" doc:"Regular expression that the issuer of a token must match. Excludes issuer."`
	UserIDClaim            string    `key:"user_id_claim" doc:"Claim with the ID of the user. Empty: sub."`

	MetaFromClaim   map[string]string `key:"meta_from_claim" doc:"Members of the meta of a connection that come from claims: from the path of a claim to the name in meta (docs/tokens.md#meta-and-labels)."`
	LabelsFromClaim map[string]string `key:"labels_from_claim" doc:"Labels of a connection that come from claims: from the path of a claim to the name of the label (docs/tokens.md#meta-and-labels)."`

	SkipJWKSSafetyCheck bool `key:"insecure_skip_jwks_endpoint_safety_check" doc:"Accept templates of jwks_public_endpoint in which claims can choose the host or any path. For development."`
}

// TokenJWKS has the JWKS of several providers.
type TokenJWKS struct {
	Enabled   bool           `key:"enabled" doc:"Verify tokens with the providers below. The keys above have no effect then. Excludes jwks_public_endpoint."`
	Providers []JWKSProvider `key:"providers" doc:"Providers. The issuer of a token chooses the provider, and the audience if several have the issuer."`
}

// JWKSProvider is an issuer of tokens.
type JWKSProvider struct {
	Name     string `key:"name" doc:"Unique name."`
	Enabled  bool   `key:"enabled" doc:"Accept tokens of this provider."`
	Endpoint string `key:"endpoint" doc:"URL of the JWKS, without placeholders."`
	Issuer   string `key:"issuer" doc:"Issuer of the tokens. Required. Providers with the same issuer need different audiences."`
	Audience string `key:"audience" doc:"Audience of the tokens. Empty: any."`

	MetaFromClaim   map[string]string `key:"meta_from_claim" doc:"Like meta_from_claim of the section, for tokens of this provider. If both set a member, this one counts."`
	LabelsFromClaim map[string]string `key:"labels_from_claim" doc:"Like labels_from_claim of the section, for tokens of this provider. If both set a label, this one counts."`

	TLS TLS `key:"tls"`
}

// SubscriptionToken is for subscription tokens alone.
type SubscriptionToken struct {
	Enabled bool `key:"enabled" opt:"restart" doc:"Verify subscription tokens with this section alone. If it is off, client.token verifies them, and a reload changes nothing in the section."`
	Token
}

// Proxy is a backend that answers events.
type Proxy struct {
	Endpoint        string        `key:"endpoint" doc:"Address of the backend: a URL with http:// or https://, or a gRPC target."`
	Timeout         time.Duration `key:"timeout" def:"1s" doc:"Longest time for a call."`
	HTTPHeaders     []string      `key:"http_headers" doc:"HTTP headers of clients that are forwarded. Empty: none."`
	GRPCMetadata    []string      `key:"grpc_metadata" doc:"Keys of the metadata of gRPC clients that are forwarded. Empty: none."`
	EmulatedHeaders []string      `key:"emulated_headers" doc:"Headers in the connect command that are forwarded as if they were HTTP headers. Clients can send anything there. Empty: none."`
	BinaryEncoding  bool          `key:"binary_encoding" doc:"Send payloads as base64, so that they need not be JSON."`
	IncludeConnMeta bool          `key:"include_connection_meta" doc:"Send the meta of the connection."`
	MaxConcurrency  int           `key:"max_concurrency" def:"256" min:"1" max:"65536" doc:"Largest number of calls that run at the same time, in each node. Centrifugo has no such key."`
	MaxQueue        int           `key:"max_queue" def:"16384" min:"0" max:"1048576" doc:"Largest number of calls that wait for others to end, at most for timeout; further calls fail at once. Centrifugo has no such key."`
	MaxStreams      int           `key:"max_streams" def:"65536" min:"1" max:"16777216" doc:"Largest number of open streams of subscriptions, in each node. Centrifugo has no such key."`
	Breaker         Breaker       `key:"breaker"`
	HTTP            HTTPProxy     `key:"http"`
	GRPC            GRPCProxy     `key:"grpc"`
}

// Breaker stops asking a backend that fails.
type Breaker struct {
	Failures int           `key:"failures" def:"20" min:"-1" max:"1000000" doc:"Number of failed calls in a row after which further calls fail without asking the backend. Negative: the backend is always asked. Centrifugo has no such key."`
	OpenFor  time.Duration `key:"open_for" def:"1s" min:"1000000" doc:"Time after which one call asks the backend again; its result decides whether the next calls ask it. Centrifugo has no such key."`
}

// HTTPProxy has the options of HTTP endpoints.
type HTTPProxy struct {
	TLS                    TLS               `key:"tls"`
	StaticHeaders          map[string]string `key:"static_headers" opt:"secret" doc:"Headers that are sent with each call. A forwarded header of the same name replaces one."`
	StatusToCodeTransforms []StatusTransform `key:"status_to_code_transforms" doc:"Errors or disconnects for clients by HTTP statuses other than 200. A status that is not listed is error 100."`
}

// GRPCProxy has the options of gRPC endpoints.
type GRPCProxy struct {
	TLS              TLS               `key:"tls"`
	CredentialsKey   string            `key:"credentials_key" doc:"Key of metadata that has the credentials of each call. Empty: none."`
	CredentialsValue string            `key:"credentials_value" opt:"secret" doc:"Value of credentials_key."`
	Compression      bool              `key:"compression" doc:"Compress messages with gzip."`
	StaticMetadata   map[string]string `key:"static_metadata" opt:"secret" doc:"Metadata that is sent with each call. Forwarded metadata of the same key replaces it."`
}

// StatusTransform maps an HTTP status to an error or a disconnect.
type StatusTransform struct {
	StatusCode int `key:"status_code" doc:"HTTP status. Required."`
	ToError    struct {
		Code      int    `key:"code" min:"0" max:"4294967295" doc:"Code of the error; this or to_disconnect.code is required."`
		Message   string `key:"message" doc:"Text of the error, at most 123 bytes of ASCII."`
		Temporary bool   `key:"temporary" doc:"Clients may try again."`
	} `key:"to_error"`
	ToDisconnect ToDisconnect `key:"to_disconnect"`
}

// SwitchedProxy is a proxy with a switch.
type SwitchedProxy struct {
	Enabled bool `key:"enabled" doc:"Ask the backend."`
	Proxy
}

// NamedProxy is for namespaces that name it.
type NamedProxy struct {
	Name string `key:"name" doc:"Unique name; default is reserved."`
	Proxy
}

// RPC has the options of RPC calls.
type RPC struct {
	Proxy            Proxy          `key:"proxy"`
	WithoutNamespace RPCOptions     `key:"without_namespace"`
	Namespaces       []RPCNamespace `key:"namespaces" doc:"RPC namespaces: options for methods whose names begin with the name of the namespace."`
	Ping             struct {
		Enabled bool   `key:"enabled" doc:"Answer the method below with empty data, without the backend."`
		Method  string `key:"method" def:"ping" doc:"Name of the method."`
	} `key:"ping"`
	NamespaceBoundary string `key:"namespace_boundary" def:":" doc:"Text that ends the namespace in the name of a method."`
}

// RPCOptions of a namespace.
type RPCOptions struct {
	ProxyEnabled bool   `key:"proxy_enabled" doc:"Let the backend answer."`
	ProxyName    string `key:"proxy_name" def:"default" doc:"Proxy for it: default for rpc.proxy, or the name of an element of proxies."`
}

// RPCNamespace is a named set of options.
type RPCNamespace struct {
	Name string `key:"name" doc:"Unique name. A method is in the namespace if its name begins with this name and rpc.namespace_boundary."`
	RPCOptions
}
