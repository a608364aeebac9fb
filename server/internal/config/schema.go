package config

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/material"
)

// Config is the configuration. The tags of its fields are the only description of keys, defaults and documentation
// (package schema).
type Config struct {
	HTTPServer HTTPServer   `key:"http_server" doc:"Listeners of HTTP."`
	Log        Log          `key:"log" doc:"The log. Each refusal to a client or a backend is a line at the level info, with the reason and the key that would allow it. A line that repeats is written limit_burst times, then once per limit_window with the number of the omitted ones as suppressed. Levels below info and lines of log.access are never omitted. If the output is slow, lines are dropped and counted; logging never delays the server."`
	Node       Node         `key:"node" doc:"Identity of this node in a cluster."`
	Shutdown   Shutdown     `key:"shutdown" doc:"Graceful shutdown."`
	UsageStats UsageStats   `key:"usage_stats" doc:"Accepted for compatibility with Centrifugo: Gyro sends no usage data."`
	PIDFile    string       `key:"pid_file" opt:"flag" doc:"File to which the process ID is written, with mode 0600. Empty: none."`
	Unreleased bool         `key:"enable_unreleased_features" idle:"there are no experimental features" doc:"Enables experimental features."`
	Client     Client       `key:"client" doc:"Connections of clients."`
	Channel    Channel      `key:"channel" opt:"reload" doc:"Channels and their namespaces."`
	RPC        RPC          `key:"rpc" opt:"reload" doc:"RPC calls of clients."`
	Proxies    []NamedProxy `key:"proxies" opt:"reload" doc:"Named proxies, which namespaces refer to."`
	HTTPAPI    HTTPAPI      `key:"http_api" doc:"Server API over HTTP."`
	GRPCAPI    GRPCAPI      `key:"grpc_api" doc:"Server API over gRPC (docs/grpc-api.md), on a listener of its own."`
	Consumers  []Consumer   `key:"consumers" doc:"Consumers, which take commands of the server API from queues (docs/consumers.md)."`

	Engine           engines.Engine                 `key:"engine" doc:"Broker and presence manager, unless the sections broker and presence_manager are enabled."`
	Broker           engines.Broker                 `key:"broker" doc:"Broker, in place of the engine's broker."`
	PresenceManager  engines.PresenceManager        `key:"presence_manager" doc:"Presence manager, in place of the engine's presence manager."`
	Brokers          []engines.NamedBroker          `key:"brokers" doc:"Further brokers, which namespaces refer to."`
	PresenceManagers []engines.NamedPresenceManager `key:"presence_managers" doc:"Further presence managers, which namespaces refer to."`
	MapBroker        engines.MapBroker              `key:"map_broker" doc:"Broker of map channels."`
	MapBrokers       []engines.NamedMapBroker       `key:"map_brokers" doc:"Further brokers of map channels, which namespaces refer to."`
	Controller       engines.Controller             `key:"controller" doc:"Controller, which carries control messages between nodes in place of the broker."`
	SharedPoll       SharedPoll                     `key:"shared_poll" doc:"Settings of all shared poll channels."`
	UserStatus       engines.UserStatus             `key:"user_status" doc:"When users were last active and online (docs/user-status.md)."`

	WebSocket     WebSocket     `key:"websocket" arg:"/connection/websocket" doc:"WebSocket."`
	SSE           BodyTransport `key:"sse" arg:"/connection/sse" doc:"Server-sent events, with commands by the section emulation."`
	HTTPStream    BodyTransport `key:"http_stream" arg:"/connection/http_stream" doc:"HTTP streaming, with commands by the section emulation."`
	Emulation     Emulation     `key:"emulation" doc:"Endpoint for commands of clients that use SSE or HTTP streaming. It exists if one of these is enabled."`
	WebTransport  WebTransport  `key:"webtransport" doc:"WebTransport. Needs http_server.http3."`
	UniWebSocket  UniWebSocket  `key:"uni_websocket" arg:"/connection/uni_websocket" doc:"Unidirectional WebSocket."`
	UniSSE        UniSSE        `key:"uni_sse" arg:"/connection/uni_sse" doc:"Unidirectional server-sent events. Events have ids, with which an EventSource recovers what it missed."`
	UniHTTPStream UniHTTP       `key:"uni_http_stream" arg:"/connection/uni_http_stream" doc:"Unidirectional HTTP streaming."`
	UniPoll       UniPoll       `key:"uni_poll" arg:"/connection/uni_poll" doc:"Unidirectional long polling. Each request has the positions of its channels, so any node can answer it. Centrifugo has no such section."`
	UniGRPC       UniGRPC       `key:"uni_grpc" doc:"Unidirectional gRPC, on a listener of its own."`
	SockJS        SockJS        `key:"sockjs" doc:"SockJS, for old clients (docs/sockjs.md). Centrifugo has no such section."`
	Init          Init          `key:"init" doc:"Endpoint that clients call to open an HTTP connection before they need it."`

	Admin         Admin         `key:"admin" doc:"Admin web interface (docs/admin.md)."`
	Prometheus    Prometheus    `key:"prometheus" doc:"Metrics for Prometheus."`
	Health        Health        `key:"health" doc:"Health endpoints."`
	Swagger       Swagger       `key:"swagger" doc:"OpenAPI document of the HTTP API, and a page (Swagger UI) that shows it and sends requests."`
	Debug         Debug         `key:"debug" doc:"Profiling endpoints of Go."`
	Flight        Flight        `key:"flight_recorder" doc:"Flight recorder: a memory of recent events of connections and channels (docs/flight-recorder.md). Centrifugo has no such section."`
	OpenTelemetry OpenTelemetry `key:"opentelemetry" doc:"Traces and metrics by OTLP. The variables OTEL_* name the collector."`
	Graphite      Graphite      `key:"graphite" doc:"Metrics for Graphite."`
}

// HTTPServer has the listeners. Internal endpoints share the external listener unless an internal address or port is
// set.
type HTTPServer struct {
	Address         string      `key:"address" opt:"flag" doc:"IP address or host name to listen on. Empty: all addresses."`
	Port            int         `key:"port" opt:"flag" def:"8000" min:"0" max:"65535" doc:"Port to listen on."`
	InternalAddress string      `key:"internal_address" opt:"flag" doc:"Address of the listener of internal endpoints. Empty: address."`
	InternalPort    string      `key:"internal_port" opt:"flag" doc:"Port of the listener of internal endpoints, such as the API and metrics. Empty: port. If neither internal_address nor internal_port is set, internal endpoints are on the external listener, where clients reach them; the server warns at start."`
	TLS             ListenerTLS `key:"tls" doc:"TLS of both listeners. With tls_external or internal_tls, the internal one does not use it."`
	TLSAutocert     TLSAutocert `key:"tls_autocert"`
	TLSExternal     bool        `key:"tls_external" doc:"Use tls for the external listener alone."`
	InternalTLS     ListenerTLS `key:"internal_tls" doc:"TLS of the internal listener, in place of tls."`
	HTTP3           HTTP3       `key:"http3"`
	H2CExternal     bool        `key:"h2c_external" doc:"HTTP/2 without TLS on the external listener. The internal listener must have another port."`
}

// TLSAutocert obtains certificates by ACME.
type TLSAutocert struct {
	Enabled        bool     `key:"enabled" doc:"Get the certificates of http_server.tls from an ACME authority, in place of its cert_pem, key_pem and certificates. This accepts the terms of service of the authority. docs/tls.md has details."`
	HostWhitelist  []string `key:"host_whitelist" doc:"Host names to get certificates for. Required. Handshakes for other names are refused."`
	CacheDir       string   `key:"cache_dir" doc:"Directory for certificates and the ACME account; it is created if it is missing. Nodes that share it can answer each other's challenges. Empty: each start gets new certificates, which authorities limit."`
	Email          string   `key:"email" doc:"Contact address for the authority."`
	ServerName     string   `key:"server_name" doc:"Host name for clients that send none (no SNI), one of host_whitelist. Empty: these clients are refused."`
	HTTP           bool     `key:"http" doc:"Answer http-01 challenges on http_addr, and redirect all other requests there to HTTPS. Otherwise only tls-alpn-01 challenges are answered, on port 443 of the external listener."`
	HTTPAddr       string   `key:"http_addr" def:":80" doc:"Address to listen on for http-01 challenges."`
	DirectoryURL   string   `key:"directory_url" doc:"URL of the ACME directory, https://… Empty: Let's Encrypt. Centrifugo has no such key."`
	DirectoryCAPEM PEM      `key:"directory_ca_pem" doc:"Certificates of authorities by which the server of directory_url is verified. Empty: those of the system. Centrifugo has no such key."`
}

// HTTP3 enables HTTP/3.
type HTTP3 struct {
	Enabled bool `key:"enabled" doc:"HTTP/3 on the external listener, over UDP on the same port. Needs http_server.tls."`
}

type (
	// PEM names certificates or a key: see material.PEM.
	PEM = material.PEM
	// TLS is the TLS object of every section: Enabled; CertPEM and KeyPEM of this side; ServerCAPEM, InsecureSkipVerify
	// and ServerName of connections to a server; ClientCAPEM of listeners. See material.TLS.
	TLS = material.TLS
)

// ListenerTLS is the TLS object of a listener.
type ListenerTLS struct {
	TLS
	Certificates     []CertificatePair `key:"certificates" doc:"Further certificates, for other host names or other types of keys. A client gets the first certificate that has the requested name and that the client can verify; cert_pem comes first, and is also used for all other names. Centrifugo has no such key."`
	Autocert         bool              `key:"autocert" doc:"Get the certificates from http_server.tls_autocert. Centrifugo has no such key."`
	MinVersion       string            `key:"min_version" def:"1.2" enum:"1.2|1.3" doc:"Lowest version of TLS. Centrifugo has no such key."`
	TicketSecret     string            `key:"session_ticket_secret" opt:"secret" doc:"Secret of at least 32 bytes, from which the keys of session tickets are derived. Nodes with the same secret resume each other's sessions. Empty: each node creates keys of its own. Centrifugo has no such key."`
	TicketSecretFile string            `key:"session_ticket_secret_file" doc:"File with one such secret per line. The first one encrypts new tickets; tickets of all of them are accepted. Centrifugo has no such key."`
	TicketRotation   time.Duration     `key:"session_ticket_rotation" def:"12h" min:"60000000000" doc:"How often a new ticket key is derived. Tickets of the two keys before it are accepted. Centrifugo has no such key."`
}

// CertificatePair is a certificate with its key.
type CertificatePair struct {
	CertPEM PEM `key:"cert_pem" doc:"Certificate chain."`
	KeyPEM  PEM `key:"key_pem" opt:"secret" doc:"Private key of cert_pem."`
}

// Log has the settings of the log.
type Log struct {
	Level string `key:"level" opt:"flag,reload" def:"info" doc:"Lowest level that is written: trace, debug, info, warn, error, fatal or none, in lower or upper case."`
	File  string `key:"file" opt:"flag" doc:"File to which lines are appended. It is opened again after SIGUSR1, and if it was renamed or removed. If a write fails, the lines are lost and counted, and stderr has one line about it. Empty: no file."`

	Format string `key:"format" opt:"flag" def:"auto" enum:"auto|text|json" doc:"Format of lines: json is one object per line, text is for people. auto is text if stdout is a terminal and log.file is empty, else json. Text goes to stdout if that is a terminal, in colors unless the variable NO_COLOR is set. Everything else goes to stderr, or to log.file. Centrifugo has no such key."`

	Access       bool          `key:"access" opt:"reload" doc:"Write a line at the level info for each request to an endpoint: method, status, path, address, duration and size of the answer. If it is off, these lines are at the level debug. Centrifugo has no such key."`
	AccessSample int           `key:"access_sample" opt:"reload" def:"1" min:"1" doc:"Write one of this many lines of log.access. 1: all. Centrifugo has no such key."`
	LimitBurst   int           `key:"limit_burst" opt:"reload" def:"20" min:"1" doc:"Number of lines of one kind that are written before further ones are omitted. Centrifugo has no such key."`
	LimitWindow  time.Duration `key:"limit_window" opt:"reload" def:"10s" min:"100000000" doc:"How often an omitted line is written again, with the number of omitted ones. Centrifugo has no such key."`
}

// Node identifies this process.
type Node struct {
	Name     string        `key:"name" doc:"Name of the node, unique in the cluster. Empty: host name and port."`
	Interval time.Duration `key:"info_metrics_aggregate_interval" def:"60s" idle:"node info has no metrics, prometheus has" doc:"How often metrics in node info are computed."`
}

// Shutdown bounds the graceful shutdown.
type Shutdown struct {
	Timeout   time.Duration `key:"timeout" def:"30s" doc:"Longest time for a shutdown. If it takes longer, the process exits with code 1."`
	Delay     time.Duration `key:"delay" def:"0s" doc:"How long the node serves on before a shutdown while /health answers 503, so that load balancers send new clients to other nodes. 0: 3 s if health.enabled is on and there are other nodes, else none. Negative: none. At most a quarter of timeout. Centrifugo has no such key."`
	DrainTime time.Duration `key:"drain_time" def:"5s" doc:"Time over which disconnects of clients are spread, so that the other nodes are not overloaded; with few clients it takes less. Negative: all at once. At most half of timeout. Centrifugo has no such key."`
}

// UsageStats is accepted for compatibility.
type UsageStats struct {
	Disabled bool `key:"disabled" idle:"nothing is ever sent" doc:"Send no usage data."`
}

// HTTPAPI is the server API over HTTP.
type HTTPAPI struct {
	Disabled      bool     `key:"disabled" doc:"Do not serve the API over HTTP."`
	HandlerPrefix string   `key:"handler_prefix" def:"/api" doc:"Path of the API."`
	Key           string   `key:"key" opt:"secret,reload" doc:"Key of backends with all rights. If there are neither keys nor tokens, and insecure is off, every request is refused."`
	Keys          []APIKey `key:"keys" opt:"reload" doc:"Further keys, with limited rights (docs/http-api.md#keys-with-rights). Centrifugo has no such key."`
	JWKS          APIJWKS  `key:"jwks" opt:"reload"`
	ErrorMode     string   `key:"error_mode" enum:"transport" doc:"With transport, an API error is also an HTTP status."`
	External      bool     `key:"external" opt:"flag" doc:"Serve the API on the external listener."`
	Insecure      bool     `key:"insecure" opt:"flag" doc:"Serve the API without keys: every request has all rights."`
}

// APIKey is a key of the server API with rights.
type APIKey struct {
	Name     string   `key:"name" doc:"Unique name, which the log shows in place of the key."`
	Key      string   `key:"key" opt:"secret" doc:"Key that a backend sends, at least 16 bytes."`
	Methods  []string `key:"methods" doc:"Methods that the key may call; * for all. Required."`
	Channels []string `key:"channels" doc:"Glob patterns of channels that commands with this key may name; * for all. Empty: none."`
}

// APIJWKS verifies tokens of backends.
type APIJWKS struct {
	Enabled  bool     `key:"enabled" doc:"Accept requests with Authorization: Bearer TOKEN (docs/http-api.md#tokens-of-an-identity-provider)."`
	Endpoint string   `key:"endpoint" doc:"URL of the JWKS with the keys of the tokens."`
	Audience string   `key:"audience" doc:"Audience that a token must have. Empty: any."`
	Issuer   string   `key:"issuer" doc:"Issuer that a token must have. Empty: any."`
	Scope    string   `key:"scope" doc:"Scope that the claim scope of a token must contain, as words or as a list. Empty: none."`
	TLS      TLS      `key:"tls" doc:"TLS of connections to the endpoint."`
	Methods  []string `key:"methods" def:"*" doc:"Methods that tokens may call; * for all. Centrifugo has no such key."`
	Channels []string `key:"channels" def:"*" doc:"Glob patterns of channels that commands with tokens may name; * for all. Centrifugo has no such key."`
}

// GRPCAPI is the server API over gRPC.
type GRPCAPI struct {
	Enabled               bool        `key:"enabled" opt:"flag" doc:"Serve the API over gRPC."`
	ErrorMode             string      `key:"error_mode" enum:"transport" doc:"With transport, an API error is a gRPC status."`
	Address               string      `key:"address" doc:"IP address or host name to listen on. Empty: all addresses."`
	Port                  int         `key:"port" opt:"flag" def:"10000" min:"0" max:"65535" doc:"Port to listen on."`
	Key                   string      `key:"key" opt:"secret,reload" doc:"Key of backends with all rights. If there are neither keys nor tokens, every call is allowed."`
	Keys                  []APIKey    `key:"keys" opt:"reload" doc:"Further keys, with limited rights (docs/http-api.md#keys-with-rights). Centrifugo has no such key."`
	JWKS                  APIJWKS     `key:"jwks" opt:"reload"`
	TLS                   ListenerTLS `key:"tls" doc:"TLS of the listener."`
	Reflection            bool        `key:"reflection" doc:"Serve the reflection service, which needs no key."`
	MaxReceiveMessageSize int         `key:"max_receive_message_size" min:"0" max:"2147483647" doc:"Largest request, in bytes. 0: 4 MiB."`
}

// Open tells that calls need neither a key nor a token.
func (g *GRPCAPI) Open() bool { return g.Key == "" && len(g.Keys) == 0 && !g.JWKS.Enabled }

// WebSocket is the WebSocket transport.
type WebSocket struct {
	Disabled bool `key:"disabled" doc:"Do not serve WebSocket."`
	WebSocketHandler
	Dictionaries    []Dictionary `key:"dictionaries" doc:"Dictionaries for the compression of messages, for clients that offer it (docs/bandwidth.md#dictionaries). Centrifugo has no such key."`
	GoroutineDriver bool         `key:"goroutine_driver" doc:"Serve each connection with goroutines of its own, and all handshakes with net/http. For diagnosis: it costs memory and CPU. Centrifugo has no such key."`
}

// Dictionary is a dictionary for the compression of messages.
type Dictionary struct {
	Name           string `key:"name" doc:"Unique name."`
	Profile        string `key:"profile" doc:"Profile that clients name to get the dictionary. Empty: for clients that name none."`
	Encoding       string `key:"encoding" enum:"json|protobuf" doc:"Encoding of the connections that get the dictionary. Required."`
	File           string `key:"file" doc:"File that gyro dict train has created, from 1 to 32768 bytes. Every client of the profile learns its content. Required."`
	AllowAnonymous bool   `key:"allow_anonymous" doc:"Give the dictionary to anonymous clients as well."`
}

// WebSocketHandler has the common keys of both WebSocket transports.
type WebSocketHandler struct {
	HandlerPrefix      string        `key:"handler_prefix" def:"{}" doc:"Path of the endpoint."`
	Compression        bool          `key:"compression" doc:"Offer compression of messages (permessage-deflate)."`
	CompressionMinSize int           `key:"compression_min_size" min:"0" doc:"Size in bytes below which messages are sent without compression."`
	CompressionLevel   int           `key:"compression_level" def:"1" min:"1" max:"9" doc:"1 is fast, 9 makes the smallest messages."`
	ReadBufferSize     int           `key:"read_buffer_size" min:"0" idle:"connections share their buffers, which Gyro sizes itself" doc:"Size in bytes. 0: the default."`
	WriteBufferPool    bool          `key:"use_write_buffer_pool" idle:"connections always share their buffers" doc:"Share write buffers between connections."`
	WriteBufferSize    int           `key:"write_buffer_size" min:"0" idle:"connections share their buffers, which Gyro sizes itself" doc:"Size in bytes. 0: the default."`
	WriteTimeout       time.Duration `key:"write_timeout" def:"1s" doc:"Longest time for a write. A connection that takes no byte in this time is closed."`
	MessageSizeLimit   int           `key:"message_size_limit" def:"65536" min:"0" doc:"Largest message of a client, in bytes as received."`
	DecompressedLimit  int           `key:"decompressed_message_size_limit" min:"0" doc:"Largest message of a client after decompression, in bytes. 0: ten times message_size_limit."`
}

// UniWebSocket is unidirectional WebSocket.
type UniWebSocket struct {
	Enabled bool `key:"enabled" opt:"flag" doc:"Serve clients that send a connect request alone (docs/unidirectional.md)."`
	WebSocketHandler
	DisableClosingHandshake bool `key:"disable_closing_handshake" doc:"Close connections without a close frame."`
	DisableDisconnectPush   bool `key:"disable_disconnect_push" doc:"Send no disconnect message before the server closes a connection."`
	JoinPushMessages        bool `key:"join_push_messages" doc:"Put several messages into one frame."`
}

// BodyTransport is SSE or HTTP streaming.
type BodyTransport struct {
	Enabled            bool   `key:"enabled" opt:"flag" doc:"Serve this transport."`
	HandlerPrefix      string `key:"handler_prefix" def:"{}" doc:"Path of the endpoint."`
	MaxRequestBodySize int    `key:"max_request_body_size" def:"65536" min:"0" doc:"Largest body of a request, in bytes. Larger ones are refused with status 413. 0: 65536."`
}

// Emulation receives commands of clients of streams.
type Emulation struct {
	HandlerPrefix      string `key:"handler_prefix" def:"/emulation" doc:"Path of the endpoint."`
	MaxRequestBodySize int    `key:"max_request_body_size" def:"65536" min:"0" doc:"Largest body of a request, in bytes. Larger ones are refused with status 413. 0: 65536."`
}

// WebTransport is the WebTransport transport.
type WebTransport struct {
	Enabled          bool   `key:"enabled" doc:"Serve WebTransport."`
	HandlerPrefix    string `key:"handler_prefix" def:"/connection/webtransport" doc:"Path of the endpoint."`
	MessageSizeLimit int    `key:"message_size_limit" def:"65536" min:"0" doc:"Largest message of a client, in bytes."`
}

// UniHTTP is unidirectional SSE or HTTP streaming.
type UniHTTP struct {
	BodyTransport
	ConnectCodeToHTTPResponse struct {
		Enabled    bool            `key:"enabled" doc:"Answer a failed connect with an HTTP status in place of a stream."`
		Transforms []HTTPTransform `key:"transforms" doc:"HTTP statuses by the code of the connect error. Codes that are not listed get 500."`
	} `key:"connect_code_to_http_response"`
}

// UniSSE is unidirectional SSE.
type UniSSE struct {
	UniHTTP
	RetryMin time.Duration `key:"retry_min" def:"1s" min:"0" doc:"Shortest time after which a browser connects again when its connection has ended. Each connection gets a random time from this to retry_max, so that browsers do not come back all at once. Centrifugo has no such key."`
	RetryMax time.Duration `key:"retry_max" def:"5s" doc:"Longest such time. Negative: browsers are told no time. Centrifugo has no such key."`
}

// UniPoll is unidirectional long polling.
type UniPoll struct {
	BodyTransport
	Timeout time.Duration `key:"timeout" def:"25s" doc:"How long a request waits for the first message, from 1s to 5m. HTTP proxies must wait longer."`
}

// HTTPTransform maps a code to an HTTP response.
type HTTPTransform struct {
	Code int `key:"code" min:"0" max:"4294967295" doc:"Code of an error or a disconnect. Required."`
	To   struct {
		StatusCode int    `key:"status_code" doc:"HTTP status, from 200 to 599. Required."`
		Body       string `key:"body" doc:"Body of the response. Empty: the text of the error."`
	} `key:"to"`
}

// UniGRPC is unidirectional gRPC.
type UniGRPC struct {
	Enabled               bool        `key:"enabled" opt:"flag" doc:"Serve clients that get a gRPC stream of messages (docs/unidirectional.md)."`
	Address               string      `key:"address" doc:"IP address or host name to listen on. Empty: all addresses."`
	Port                  int         `key:"port" opt:"flag" def:"11000" min:"0" max:"65535" doc:"Port to listen on."`
	MaxReceiveMessageSize int         `key:"max_receive_message_size" min:"0" max:"2147483647" doc:"Largest connect request, in bytes. 0: 64 KiB."`
	UserIDMetadata        string      `key:"user_id_metadata" doc:"Key of the metadata in which an authenticating gRPC proxy names the user. client.user_id_http_header has no effect here. Empty: none. Centrifugo has no such key."`
	TLS                   ListenerTLS `key:"tls" doc:"TLS of the listener."`
}

// SockJS is the SockJS transport.
type SockJS struct {
	Enabled            bool          `key:"enabled" doc:"Serve SockJS clients. With several nodes, all requests of a session must reach the same node."`
	HandlerPrefix      string        `key:"handler_prefix" def:"/connection/sockjs" doc:"Path of the endpoint, which has all paths below it as well."`
	URL                string        `key:"url" doc:"URL of the SockJS client script, for browsers that need an iframe. Empty: no iframes."`
	MaxRequestBodySize int           `key:"max_request_body_size" def:"65536" min:"0" doc:"Largest request or WebSocket message of a client, in bytes."`
	DisconnectDelay    time.Duration `key:"disconnect_delay" def:"5s" min:"1000000000" max:"60000000000" doc:"How long a session without a receiving request lives."`
}

// Init is the init endpoint.
type Init struct {
	Enabled       bool   `key:"enabled" opt:"flag" doc:"Serve the endpoint."`
	HandlerPrefix string `key:"handler_prefix" def:"/connection/init" doc:"Path of the endpoint."`
}

// Admin is the admin interface.
type Admin struct {
	Enabled         bool          `key:"enabled" opt:"flag" doc:"Serve the admin web interface and its endpoints (docs/admin.md). Metrics are counted for it even if prometheus.enabled is off."`
	HandlerPrefix   string        `key:"handler_prefix" doc:"Path of the interface. Empty: the interface is at /, and its endpoints are below /admin."`
	Password        string        `key:"password" opt:"secret,reload" doc:"Password of the operator. Logins need password and secret. A change ends all sessions."`
	Secret          string        `key:"secret" opt:"secret,reload" doc:"Secret that signs tokens of sessions, the same on all nodes. A change ends all sessions."`
	SessionTTL      time.Duration `key:"session_ttl" def:"12h" min:"1m" max:"720h" opt:"reload" doc:"How long a login is valid. Centrifugo has no such key."`
	APIKey          string        `key:"api_key" opt:"secret,reload" doc:"Key of at least 16 bytes that programs send as X-API-Key in place of a login. Empty: none."`
	Insecure        bool          `key:"insecure" opt:"flag" doc:"No login: everybody who reaches the listener is an operator."`
	WebPath         string        `key:"web_path" doc:"Directory with another web application, which replaces the built-in one."`
	WebProxyAddress string        `key:"web_proxy_address" doc:"URL of a server with the web application, for its development. Replaces web_path."`
	External        bool          `key:"external" opt:"flag" doc:"Serve the interface on the external listener, which clients use, in place of the internal one."`
}

// Prometheus is the metrics endpoint.
type Prometheus struct {
	Enabled                        bool     `key:"enabled" opt:"flag" doc:"Serve the endpoint, and count."`
	HandlerPrefix                  string   `key:"handler_prefix" def:"/metrics" doc:"Path of the endpoint."`
	Namespace                      string   `key:"namespace" def:"gyro" doc:"Start of the names of metrics. centrifugo keeps dashboards that were made for Centrifugo."`
	InstrumentHTTPHandlers         bool     `key:"instrument_http_handlers" doc:"Count HTTP requests by path, method and status."`
	RecoveredPublicationsHistogram bool     `key:"recovered_publications_histogram" doc:"Add a histogram of the number of recovered publications."`
	ChannelNamespaceResolution     bool     `key:"channel_namespace_resolution" doc:"Add the label channel_namespace. Each configured namespace has values of its own; the label is empty for channels without a namespace or with an unknown one."`
	AdditionalClientNames          []string `key:"additional_client_names" doc:"Names of clients that become values of the label client_name, at most 63. All other names become unregistered."`
	ExposeTransportAcceptProtocol  bool     `key:"expose_transport_accept_protocol" doc:"Add the label accept_protocol, the version of HTTP of the connection: h1, h2 or h3."`
	ClientLabels                   []string `key:"client_labels" doc:"Labels of clients (from tokens or the connect proxy) that become labels app_KEY of connections and subscriptions, at most 4."`
	ClientLabelsLimit              int      `key:"client_labels_limit" def:"100" min:"1" max:"254" doc:"Number of combinations of values of client_labels that metrics tell apart. All further ones have the value other. Centrifugo has no such key."`
	NativeHistograms               bool     `key:"native_histograms" doc:"Export native histograms in place of summaries."`
}

// Health has the health endpoints.
type Health struct {
	Enabled       bool   `key:"enabled" opt:"flag" doc:"Serve the endpoints."`
	HandlerPrefix string `key:"handler_prefix" def:"/health" doc:"Path of the endpoint. Below it, /live is 200 as long as the process serves HTTP, and /ready is 200 as long as the node and its engines work, else 503."`
	Mode          string `key:"mode" def:"ready" enum:"ready|live" doc:"Endpoint whose answer the path itself gives: /ready or /live."`
}

// Swagger is the documentation of the HTTP API.
type Swagger struct {
	Enabled       bool   `key:"enabled" opt:"flag" doc:"Serve the page and the document."`
	HandlerPrefix string `key:"handler_prefix" def:"/swagger" doc:"Path of the page. The document is below it, at /openapi.json."`
}

// Debug has the profiling endpoints.
type Debug struct {
	Enabled       bool   `key:"enabled" opt:"flag" doc:"Serve the endpoints."`
	HandlerPrefix string `key:"handler_prefix" def:"/debug/pprof" doc:"Path of the endpoints."`
}

// Flight is the flight recorder.
type Flight struct {
	Disabled bool `key:"disabled" doc:"Record nothing."`
	Size     int  `key:"size" def:"8388608" min:"262144" max:"1073741824" doc:"Largest amount of memory of the recorder, in bytes; it grows as needed. When it is full, the oldest events are dropped."`
}

// Bytes is Size; negative: record nothing.
func (f *Flight) Bytes() int {
	if f.Disabled {
		return -1
	}
	return f.Size
}

// OpenTelemetry selects traces and metrics.
type OpenTelemetry struct {
	Enabled            bool   `key:"enabled" doc:"Export the traces and metrics that the other keys enable. The variables OTEL_* name the collector (docs/tracing.md); the default is a collector on this machine."`
	Metrics            bool   `key:"metrics" doc:"Push all metrics by OTLP, every 60 s or as often as OTEL_METRIC_EXPORT_INTERVAL says. It does not need prometheus.enabled, and follows the other keys of prometheus."`
	API                bool   `key:"api" doc:"Trace requests to the server API, over HTTP and gRPC, and the work of the node for them. A request with a traceparent continues that trace."`
	Consuming          bool   `key:"consuming" doc:"Trace the messages of consumers. A message with an attribute traceparent continues that trace."`
	Proxy              bool   `key:"proxy" doc:"Trace calls to the backend, and send traceparent with them. Centrifugo has no such key."`
	Client             bool   `key:"client" doc:"Trace the work of the node for clients: handlers, proxies and engines, with one trace per command. Set sampler too if there are many commands. Centrifugo has no such key."`
	Sampler            string `key:"sampler" doc:"Traces to export: always_on, always_off, traceidratio=0.1, or one of these with parentbased_ before it, which keeps the decision of the caller for traces of callers. Empty: the variable OTEL_TRACES_SAMPLER, else parentbased_always_on. Centrifugo has no such key."`
	GoogleCloudADCAuth bool   `key:"google_cloud_adc_auth" doc:"Authenticate at the collector with Google application default credentials. With grpc it needs TLS."`
}

// Graphite exports metrics to Graphite.
type Graphite struct {
	Enabled  bool          `key:"enabled" doc:"Push all metrics to Graphite. It does not need prometheus.enabled, and follows the other keys of prometheus."`
	Host     string        `key:"host" def:"localhost" doc:"Host name of the Graphite server."`
	Port     int           `key:"port" def:"2003" min:"1" max:"65535" doc:"Port of the plaintext protocol."`
	Prefix   string        `key:"prefix" def:"centrifugo" doc:"Start of the paths of metrics. The name of the node follows, with underscores for dots and for characters that are not ASCII."`
	Interval time.Duration `key:"interval" def:"10s" min:"1000000000" doc:"Time between two pushes."`
	Tags     bool          `key:"tags" doc:"Write labels as tags (;name=value) in place of parts of the path."`
}
