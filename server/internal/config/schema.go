package config

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/material"
)

// Config is the whole configuration. The tags of its fields are the only description of keys,
// defaults and documentation; package schema explains them. docs/configuration.md lists all of
// them.
type Config struct {
	HTTPServer HTTPServer   `key:"http_server" doc:"HTTP listeners."`
	Log        Log          `key:"log" doc:"Logging. What is refused to clients and backends is a line at info each, with the reason and the key that would allow it. A line that repeats itself is written limit_burst times, then once every limit_window with the number of the others as suppressed; levels below info and log.access are not limited. Lines that the output does not take in time are dropped and counted: logging never holds the server up."`
	Node       Node         `key:"node" doc:"Identity of this node in a cluster."`
	Shutdown   Shutdown     `key:"shutdown" doc:"Graceful shutdown."`
	UsageStats UsageStats   `key:"usage_stats" doc:"Accepted for compatibility: Gyro sends no usage data."`
	PIDFile    string       `key:"pid_file" opt:"flag" doc:"File to write the process ID to, mode 0600."`
	Unreleased bool         `key:"enable_unreleased_features" idle:"there are no experimental features" doc:"Unlocks experimental features."`
	Client     Client       `key:"client" doc:"Client connections."`
	Channel    Channel      `key:"channel" opt:"reload" doc:"Channels and their namespaces."`
	RPC        RPC          `key:"rpc" opt:"reload" doc:"RPC calls of clients."`
	Proxies    []NamedProxy `key:"proxies" opt:"reload" doc:"Named proxies, for use by namespaces."`
	HTTPAPI    HTTPAPI      `key:"http_api" doc:"Server API over HTTP."`
	GRPCAPI    GRPCAPI      `key:"grpc_api" doc:"Server API over gRPC (docs/grpc-api.md), on a listener of its own."`
	Consumers  []Consumer   `key:"consumers" doc:"Take API commands from queues (docs/consumers.md)."`

	Engine           engines.Engine                 `key:"engine" doc:"Provides broker and presence unless replaced by the sections below."`
	Broker           engines.Broker                 `key:"broker" doc:"Replaces the engine's broker."`
	PresenceManager  engines.PresenceManager        `key:"presence_manager" doc:"Replaces the engine's presence manager."`
	Brokers          []engines.NamedBroker          `key:"brokers" doc:"Further brokers, for use by namespaces."`
	PresenceManagers []engines.NamedPresenceManager `key:"presence_managers" doc:"Further presence managers, for use by namespaces."`
	MapBroker        engines.MapBroker              `key:"map_broker" doc:"State of map channels."`
	MapBrokers       []engines.NamedMapBroker       `key:"map_brokers" doc:"Further brokers of map channels, for use by namespaces."`
	Controller       engines.Controller             `key:"controller" doc:"Separate cluster control channel."`
	SharedPoll       SharedPoll                     `key:"shared_poll" doc:"Shared poll channels."`
	UserStatus       engines.UserStatus             `key:"user_status" doc:"When users were active and online last (docs/user-status.md)."`

	WebSocket     WebSocket     `key:"websocket" arg:"/connection/websocket" doc:"WebSocket transport."`
	SSE           BodyTransport `key:"sse" arg:"/connection/sse" doc:"SSE transport."`
	HTTPStream    BodyTransport `key:"http_stream" arg:"/connection/http_stream" doc:"HTTP streaming transport."`
	Emulation     Emulation     `key:"emulation" doc:"Commands of clients that use SSE or HTTP streaming. The endpoint is there if one of these is enabled."`
	WebTransport  WebTransport  `key:"webtransport" doc:"WebTransport, needs HTTP/3."`
	UniWebSocket  UniWebSocket  `key:"uni_websocket" arg:"/connection/uni_websocket" doc:"Unidirectional WebSocket."`
	UniSSE        UniSSE        `key:"uni_sse" arg:"/connection/uni_sse" doc:"Unidirectional SSE. Events have ids, by which an EventSource gets what it missed."`
	UniHTTPStream UniHTTP       `key:"uni_http_stream" arg:"/connection/uni_http_stream" doc:"Unidirectional HTTP streaming."`
	UniPoll       UniPoll       `key:"uni_poll" arg:"/connection/uni_poll" doc:"Unidirectional long polling. Each request has the positions of channels, and any node answers it. Keys of Gyro alone."`
	UniGRPC       UniGRPC       `key:"uni_grpc" doc:"Unidirectional gRPC, on a listener of its own."`
	SockJS        SockJS        `key:"sockjs" doc:"SockJS, for old clients (docs/sockjs.md). Keys of Gyro alone."`
	Init          Init          `key:"init" doc:"Endpoint for clients that warm up an HTTP connection."`

	Admin         Admin         `key:"admin" doc:"Admin web interface (docs/admin.md)."`
	Prometheus    Prometheus    `key:"prometheus" doc:"Metrics for Prometheus."`
	Health        Health        `key:"health" doc:"Health endpoints."`
	Swagger       Swagger       `key:"swagger" doc:"OpenAPI document of the HTTP API, and a page (Swagger UI) to read it and to send requests."`
	Debug         Debug         `key:"debug" doc:"Profiling endpoints."`
	Flight        Flight        `key:"flight_recorder" doc:"Memory of what happened to connections and channels of late (docs/flight-recorder.md). Keys of Gyro alone."`
	OpenTelemetry OpenTelemetry `key:"opentelemetry" doc:"Export by OTLP. Where to is said by the variables OTEL_*."`
	Graphite      Graphite      `key:"graphite" doc:"Metrics pushed to Graphite."`
}

// HTTPServer has the listeners. Internal endpoints (API, metrics,
// …) share the external listener unless an internal address or port is given.
type HTTPServer struct {
	Address         string      `key:"address" opt:"flag" doc:"Address to listen on; empty for all."`
	Port            int         `key:"port" opt:"flag" def:"8000" min:"0" max:"65535" doc:"Port to listen on."`
	InternalAddress string      `key:"internal_address" opt:"flag" doc:"Address of internal endpoints; empty for that of the external ones."`
	InternalPort    string      `key:"internal_port" opt:"flag" doc:"Port of internal endpoints, such as API and metrics; empty for that of the external ones, so that clients reach them, of which the start warns."`
	TLS             ListenerTLS `key:"tls"`
	TLSAutocert     TLSAutocert `key:"tls_autocert"`
	TLSExternal     bool        `key:"tls_external" doc:"TLS on the external listener only."`
	InternalTLS     ListenerTLS `key:"internal_tls"`
	HTTP3           HTTP3       `key:"http3"`
	H2CExternal     bool        `key:"h2c_external" doc:"HTTP/2 without TLS on the external listener, which must then differ from the internal one."`
}

// TLSAutocert obtains certificates by ACME.
type TLSAutocert struct {
	Enabled        bool     `key:"enabled" doc:"Obtain the certificates of http_server.tls from an ACME authority, whose terms of service this accepts, in place of its cert_pem, key_pem and certificates. docs/tls.md has the rest."`
	HostWhitelist  []string `key:"host_whitelist" doc:"Hosts to obtain certificates for; required. Handshakes for other names are refused."`
	CacheDir       string   `key:"cache_dir" doc:"Directory that keeps certificates and the account; it is made if it is missing. Without it, each start obtains new ones, which authorities limit. Nodes that share it answer each other's challenges."`
	Email          string   `key:"email" doc:"Contact address."`
	ServerName     string   `key:"server_name" doc:"Host assumed for clients without SNI, one of host_whitelist. Without it they are refused."`
	HTTP           bool     `key:"http" doc:"Answer http-01 challenges on http_addr, and redirect other requests to HTTPS. Without it, only tls-alpn-01 challenges are answered, on port 443 of the external listener."`
	HTTPAddr       string   `key:"http_addr" def:":80" doc:"Address for http-01 challenges."`
	DirectoryURL   string   `key:"directory_url" doc:"Directory of the ACME authority, https://…; empty for that of Let's Encrypt. Gyro's own key."`
	DirectoryCAPEM PEM      `key:"directory_ca_pem" doc:"CAs to verify the server of directory_url with, if those of the system do not know it. Gyro's own key."`
}

// HTTP3 switches HTTP/3 on.
type HTTP3 struct {
	Enabled bool `key:"enabled" doc:"HTTP/3 on the external address, over UDP on the same port. Needs TLS."`
}

type (
	// PEM names certificates or a key. See "go doc github.com/gyrohq/gyro/server/internal/config/material.PEM".
	PEM = material.PEM
	// TLS is the TLS object of every section: Enabled; CertPEM and KeyPEM of this side; ServerCAPEM, InsecureSkipVerify and
	// ServerName of connections to a server; ClientCAPEM of listeners. See
	// "go doc github.com/gyrohq/gyro/server/internal/config/material.TLS".
	TLS = material.TLS
)

// ListenerTLS is the TLS object of a listener. The keys beyond TLS are Gyro's own.
type ListenerTLS struct {
	TLS
	Certificates     []CertificatePair `key:"certificates" doc:"Further certificates, for other host names or other kinds of keys. A client gets the first one that has the name which it asks for and that it can verify, beginning with that of cert_pem, which is also that of all other names. Gyro's own key."`
	Autocert         bool              `key:"autocert" doc:"Take the certificates from http_server.tls_autocert instead. Gyro's own key."`
	MinVersion       string            `key:"min_version" def:"1.2" enum:"1.2|1.3" doc:"Lowest version of TLS. Gyro's own key."`
	TicketSecret     string            `key:"session_ticket_secret" opt:"secret" doc:"Secret of at least 32 bytes, from which the keys of session tickets are derived, so that nodes with the same secret resume each other's sessions. Without it, each node makes keys of its own. Gyro's own key."`
	TicketSecretFile string            `key:"session_ticket_secret_file" doc:"File with such a secret in each line. The first one encrypts new tickets, all of them are accepted. Gyro's own key."`
	TicketRotation   time.Duration     `key:"session_ticket_rotation" def:"12h" min:"60000000000" doc:"Derive a new ticket key this often. Tickets of the two keys before it are still accepted. Gyro's own key."`
}

// CertificatePair is a certificate with its key.
type CertificatePair struct {
	CertPEM PEM `key:"cert_pem" doc:"Certificate chain."`
	KeyPEM  PEM `key:"key_pem" opt:"secret" doc:"Private key."`
}

// Log sets the level, the format and the place of the log.
type Log struct {
	Level string `key:"level" opt:"flag,reload" def:"info" doc:"trace, debug, info, warn, error, fatal or none; letter case does not count."`
	File  string `key:"file" opt:"flag" doc:"File to append lines to. It is opened anew at SIGUSR1, and when it was renamed or removed. If it cannot be written, lines are lost and counted, and stderr says so once."`

	Format string `key:"format" opt:"flag" def:"auto" enum:"auto|text|json" doc:"What lines are: json is one object per line, text is for people; auto is text if stdout is a terminal and there is no log.file, else json. Text goes to stdout if that is a terminal, coloured unless the variable NO_COLOR is set; everything else goes to stderr, or to log.file. Gyro's own key."`

	Access       bool          `key:"access" opt:"reload" doc:"Write a line for each request to an endpoint, at the level info: method, status, path, address, duration and size of the answer. Otherwise the level debug has them. Gyro's own key."`
	AccessSample int           `key:"access_sample" opt:"reload" def:"1" min:"1" doc:"Of this many lines of log.access, write one. Gyro's own key."`
	LimitBurst   int           `key:"limit_burst" opt:"reload" def:"20" min:"1" doc:"How many lines of one kind are written before they are limited. Gyro's own key."`
	LimitWindow  time.Duration `key:"limit_window" opt:"reload" def:"10s" min:"100000000" doc:"How often a line of a kind is written that is limited, with the number of the others. Gyro's own key."`
}

// Node identifies this process.
type Node struct {
	Name     string        `key:"name" doc:"Unique in the cluster; by default host name and port."`
	Interval time.Duration `key:"info_metrics_aggregate_interval" def:"60s" idle:"node info has no metrics, prometheus has" doc:"Period of metrics in node info."`
}

// Shutdown bounds the graceful shutdown.
type Shutdown struct {
	Timeout   time.Duration `key:"timeout" def:"30s" doc:"The process exits with code 1 when a shutdown takes longer."`
	Delay     time.Duration `key:"delay" def:"0s" doc:"How long the node goes on as before a shutdown while /health says 503, so that load balancers send new clients to other nodes. 0: 3 s with health.enabled where there are other nodes, and none elsewhere. At most a quarter of timeout; negative: none. Key of Gyro alone."`
	DrainTime time.Duration `key:"drain_time" def:"5s" doc:"Clients are told to leave spread over this time, so that the nodes that they go to are not overrun; few clients take less. At most half of timeout; negative: all at once."`
}

// UsageStats is accepted for compatibility.
type UsageStats struct {
	Disabled bool `key:"disabled" idle:"nothing is ever sent" doc:"Send no usage data."`
}

// HTTPAPI is the server API over HTTP.
type HTTPAPI struct {
	Disabled      bool     `key:"disabled" doc:"Do not serve the API over HTTP."`
	HandlerPrefix string   `key:"handler_prefix" def:"/api" doc:"Path."`
	Key           string   `key:"key" opt:"secret,reload" doc:"Secret that backends send, which may do everything. Without it, the keys and tokens below and insecure, every request is refused."`
	Keys          []APIKey `key:"keys" opt:"reload" doc:"Further keys, with rights of their own (docs/http-api.md#keys-with-rights). Gyro's own key."`
	JWKS          APIJWKS  `key:"jwks" opt:"reload"`
	ErrorMode     string   `key:"error_mode" enum:"transport" doc:"With transport, API errors become HTTP statuses."`
	External      bool     `key:"external" opt:"flag" doc:"Serve on the external listener."`
	Insecure      bool     `key:"insecure" opt:"flag" doc:"Serve without a key."`
}

// APIKey is a key of the server API with rights.
type APIKey struct {
	Name     string   `key:"name" doc:"Unique name, which stands for the key in the log."`
	Key      string   `key:"key" opt:"secret" doc:"Secret that backends send, at least 16 bytes."`
	Methods  []string `key:"methods" doc:"Methods that it may call; * for all; required."`
	Channels []string `key:"channels" doc:"Glob patterns of the channels that its commands may name; * for all."`
}

// APIJWKS verifies tokens of backends that call the server API.
type APIJWKS struct {
	Enabled  bool     `key:"enabled" doc:"Accept requests with Authorization: Bearer TOKEN (docs/http-api.md#tokens-of-an-identity-provider)."`
	Endpoint string   `key:"endpoint" doc:"URL of the JWKS with the keys of the tokens."`
	Audience string   `key:"audience" doc:"Required audience; empty for any."`
	Issuer   string   `key:"issuer" doc:"Required issuer; empty for any."`
	Scope    string   `key:"scope" doc:"Scope that the claim scope, words or a list, has to hold; empty for none."`
	TLS      TLS      `key:"tls"`
	Methods  []string `key:"methods" def:"*" doc:"Methods that tokens may call; * for all. Gyro's own key."`
	Channels []string `key:"channels" def:"*" doc:"Glob patterns of the channels that their commands may name; * for all. Gyro's own key."`
}

// GRPCAPI is the server API over gRPC.
type GRPCAPI struct {
	Enabled               bool        `key:"enabled" opt:"flag" doc:"Serve the API over gRPC."`
	ErrorMode             string      `key:"error_mode" enum:"transport" doc:"With transport, API errors become gRPC statuses."`
	Address               string      `key:"address" doc:"Address to listen on; empty for all."`
	Port                  int         `key:"port" opt:"flag" def:"10000" min:"0" max:"65535" doc:"Port to listen on."`
	Key                   string      `key:"key" opt:"secret,reload" doc:"Secret that backends send, which may do everything. Without it, and without the keys and tokens below, every call is allowed."`
	Keys                  []APIKey    `key:"keys" opt:"reload" doc:"Further keys, with rights of their own (docs/http-api.md#keys-with-rights). Gyro's own key."`
	JWKS                  APIJWKS     `key:"jwks" opt:"reload"`
	TLS                   ListenerTLS `key:"tls"`
	Reflection            bool        `key:"reflection" doc:"Serve the reflection service, which needs no key."`
	MaxReceiveMessageSize int         `key:"max_receive_message_size" min:"0" max:"2147483647" doc:"Largest request, bytes; 0 for 4 MiB."`
}

// Open tells that calls need neither a key nor a token.
func (g *GRPCAPI) Open() bool { return g.Key == "" && len(g.Keys) == 0 && !g.JWKS.Enabled }

// WebSocket is the WebSocket transport.
type WebSocket struct {
	Disabled bool `key:"disabled" doc:"Do not serve WebSocket."`
	WebSocketHandler
	Dictionaries    []Dictionary `key:"dictionaries" doc:"What messages to clients that offer it are compressed against (docs/bandwidth.md#dictionaries). Gyro's own key."`
	GoroutineDriver bool         `key:"goroutine_driver" doc:"Serve every connection with goroutines of its own and all handshakes with net/http. For diagnosis: it costs memory and CPU."`
}

// Dictionary is a dictionary for the compression of messages to some clients.
type Dictionary struct {
	Name           string `key:"name" doc:"Unique name."`
	Profile        string `key:"profile" doc:"Profile that clients declare to get it; empty for those that declare none."`
	Encoding       string `key:"encoding" enum:"json|protobuf" doc:"Encoding of their connections; required."`
	File           string `key:"file" doc:"File that gyro dict train has made: 1 to 32768 bytes. All clients of the profile learn it. Required."`
	AllowAnonymous bool   `key:"allow_anonymous" doc:"Clients without a user get it, too."`
}

// WebSocketHandler has the common keys of both WebSocket transports.
type WebSocketHandler struct {
	HandlerPrefix      string        `key:"handler_prefix" def:"{}" doc:"Path."`
	Compression        bool          `key:"compression" doc:"Offer permessage-deflate."`
	CompressionMinSize int           `key:"compression_min_size" min:"0" doc:"Bytes; smaller messages are sent uncompressed."`
	CompressionLevel   int           `key:"compression_level" def:"1" min:"1" max:"9" doc:"1 (fast) to 9 (small)."`
	ReadBufferSize     int           `key:"read_buffer_size" min:"0" idle:"connections share their buffers, which Gyro sizes itself" doc:"Bytes; 0 for the default."`
	WriteBufferPool    bool          `key:"use_write_buffer_pool" idle:"connections always share their buffers" doc:"Share write buffers between connections."`
	WriteBufferSize    int           `key:"write_buffer_size" min:"0" idle:"connections share their buffers, which Gyro sizes itself" doc:"Bytes; 0 for the default."`
	WriteTimeout       time.Duration `key:"write_timeout" def:"1s" doc:"Limit of one write."`
	MessageSizeLimit   int           `key:"message_size_limit" def:"65536" min:"0" doc:"Largest incoming message, bytes on the wire."`
	DecompressedLimit  int           `key:"decompressed_message_size_limit" min:"0" doc:"Largest incoming message after inflation, bytes; 0 for 10 × message_size_limit."`
}

// UniWebSocket is the unidirectional WebSocket transport.
type UniWebSocket struct {
	Enabled bool `key:"enabled" opt:"flag" doc:"Serve clients that send nothing but their connect request (docs/unidirectional.md)."`
	WebSocketHandler
	DisableClosingHandshake bool `key:"disable_closing_handshake" doc:"No close frame when the server closes."`
	DisableDisconnectPush   bool `key:"disable_disconnect_push" doc:"No disconnect push before closing."`
	JoinPushMessages        bool `key:"join_push_messages" doc:"Several pushes in one frame."`
}

// BodyTransport is SSE or HTTP streaming.
type BodyTransport struct {
	Enabled            bool   `key:"enabled" opt:"flag" doc:"Serve this transport."`
	HandlerPrefix      string `key:"handler_prefix" def:"{}" doc:"Path."`
	MaxRequestBodySize int    `key:"max_request_body_size" def:"65536" min:"0" doc:"Largest body of a request, bytes; 0 for 65536. Larger ones are refused with 413."`
}

// Emulation receives the commands of clients of streams.
type Emulation struct {
	HandlerPrefix      string `key:"handler_prefix" def:"/emulation" doc:"Path."`
	MaxRequestBodySize int    `key:"max_request_body_size" def:"65536" min:"0" doc:"Largest body of a request, bytes; 0 for 65536. Larger ones are refused with 413."`
}

// WebTransport is the WebTransport transport.
type WebTransport struct {
	Enabled          bool   `key:"enabled"`
	HandlerPrefix    string `key:"handler_prefix" def:"/connection/webtransport" doc:"Path."`
	MessageSizeLimit int    `key:"message_size_limit" def:"65536" min:"0" doc:"Largest incoming message, bytes."`
}

// UniHTTP is unidirectional SSE or HTTP streaming.
type UniHTTP struct {
	BodyTransport
	ConnectCodeToHTTPResponse struct {
		Enabled    bool            `key:"enabled" doc:"Answer a failed connect by an HTTP status instead of a stream."`
		Transforms []HTTPTransform `key:"transforms" doc:"Statuses by connect code; 500 for codes that are not listed."`
	} `key:"connect_code_to_http_response"`
}

// UniSSE is unidirectional SSE.
type UniSSE struct {
	UniHTTP
	RetryMin time.Duration `key:"retry_min" def:"1s" min:"0" doc:"Least time after which a browser comes back when its connection has ended. Each connection is told another time between this and retry_max, so that not all browsers come back at once. Key of Gyro alone."`
	RetryMax time.Duration `key:"retry_max" def:"5s" min:"0" doc:"Most of this time; 0 tells browsers nothing. Key of Gyro alone."`
}

// UniPoll is unidirectional long polling.
type UniPoll struct {
	BodyTransport
	Timeout time.Duration `key:"timeout" def:"25s" doc:"How long a request waits for the first push; from 1s to 5m. Proxies have to wait for longer."`
}

// HTTPTransform maps a code to an HTTP response.
type HTTPTransform struct {
	Code int `key:"code" min:"0" max:"4294967295" doc:"Error or disconnect code; required."`
	To   struct {
		StatusCode int    `key:"status_code" doc:"HTTP status; required."`
		Body       string `key:"body" doc:"Body; by default the error's text."`
	} `key:"to"`
}

// UniGRPC is the unidirectional gRPC transport.
type UniGRPC struct {
	Enabled               bool        `key:"enabled" opt:"flag" doc:"Serve clients that get a stream of pushes by gRPC (docs/unidirectional.md)."`
	Address               string      `key:"address" doc:"Address to listen on; empty for all."`
	Port                  int         `key:"port" opt:"flag" def:"11000" min:"0" max:"65535" doc:"Port to listen on."`
	MaxReceiveMessageSize int         `key:"max_receive_message_size" min:"0" max:"2147483647" doc:"Largest connect request, bytes; 0 for 64 KiB."`
	UserIDMetadata        string      `key:"user_id_metadata" doc:"Key of the metadata in which an authenticating reverse proxy of gRPC names the user. client.user_id_http_header does not count here. Gyro's own key."`
	TLS                   ListenerTLS `key:"tls"`
}

// SockJS is the SockJS transport.
type SockJS struct {
	Enabled            bool          `key:"enabled" doc:"Serve SockJS clients. Behind several nodes all requests of a session have to reach the same one."`
	HandlerPrefix      string        `key:"handler_prefix" def:"/connection/sockjs" doc:"Path; everything below it belongs to the endpoint."`
	URL                string        `key:"url" doc:"Address of the SockJS client script, for browsers that need an iframe; without it there are no iframes."`
	MaxRequestBodySize int           `key:"max_request_body_size" def:"65536" min:"0" doc:"Largest request, or WebSocket message, with commands; bytes."`
	DisconnectDelay    time.Duration `key:"disconnect_delay" def:"5s" min:"1000000000" max:"60000000000" doc:"How long a session lives between two requests that receive."`
}

// Init is the init endpoint.
type Init struct {
	Enabled       bool   `key:"enabled" opt:"flag"`
	HandlerPrefix string `key:"handler_prefix" def:"/connection/init" doc:"Path."`
}

// Admin is the admin interface.
type Admin struct {
	Enabled         bool          `key:"enabled" opt:"flag" doc:"Serve the admin web interface and its endpoints (docs/admin.md). It also counts what the metrics count, whatever prometheus.enabled says."`
	HandlerPrefix   string        `key:"handler_prefix" doc:"Path that all paths of the interface begin with; empty for none, so that the interface is at / and its endpoints are below /admin."`
	Password        string        `key:"password" opt:"secret,reload" doc:"Password of the operator. Nobody can log in without it and secret. A new one ends all sessions."`
	Secret          string        `key:"secret" opt:"secret,reload" doc:"Secret that signs the tokens of sessions, the same on all nodes. A new one ends all sessions."`
	SessionTTL      time.Duration `key:"session_ttl" def:"12h" min:"1m" max:"720h" opt:"reload" doc:"How long a login is valid. Gyro's own key."`
	APIKey          string        `key:"api_key" opt:"secret,reload" doc:"What programs send as X-API-Key in place of a token of a session, at least 16 bytes; empty for none."`
	Insecure        bool          `key:"insecure" opt:"flag" doc:"No login: whoever reaches the listener is an operator."`
	WebPath         string        `key:"web_path" doc:"Directory with another web application, in place of the built-in one."`
	WebProxyAddress string        `key:"web_proxy_address" doc:"URL of a server to take the web application from, for its development; wins over web_path."`
	External        bool          `key:"external" opt:"flag" doc:"Serve on the external listener, which clients use, in place of the internal one."`
}

// Prometheus is the metrics endpoint.
type Prometheus struct {
	Enabled                        bool     `key:"enabled" opt:"flag"`
	HandlerPrefix                  string   `key:"handler_prefix" def:"/metrics" doc:"Path."`
	Namespace                      string   `key:"namespace" def:"gyro" doc:"What names of metrics begin with; centrifugo for dashboards made for that."`
	InstrumentHTTPHandlers         bool     `key:"instrument_http_handlers" doc:"Count requests by path, method and status."`
	RecoveredPublicationsHistogram bool     `key:"recovered_publications_histogram" doc:"Histogram of recovered publications."`
	ChannelNamespaceResolution     bool     `key:"channel_namespace_resolution" doc:"Tell the namespaces of channels apart, by the label channel_namespace. Each configured namespace has counters of its own; channels without one, or with one that is not configured, have the empty label."`
	AdditionalClientNames          []string `key:"additional_client_names" doc:"Names that clients give themselves and that become values of the label client_name, 63 at most. All others are unregistered."`
	ExposeTransportAcceptProtocol  bool     `key:"expose_transport_accept_protocol" doc:"Tell connections apart by the version of HTTP by which they came, by the label accept_protocol: h1, h2 or h3."`
	ClientLabels                   []string `key:"client_labels" doc:"Keys of the labels of clients (labels of tokens and of the connect proxy) by which connections and subscriptions are told apart, by labels app_KEY; 4 at most."`
	ClientLabelsLimit              int      `key:"client_labels_limit" def:"100" min:"1" max:"254" doc:"Combinations of values of client_labels that are told apart, so that metrics are bounded. All further ones have the value other. Gyro's own key."`
	NativeHistograms               bool     `key:"native_histograms" doc:"Native histograms; summaries are dropped."`
}

// Health has the health endpoints.
type Health struct {
	Enabled       bool   `key:"enabled" opt:"flag"`
	HandlerPrefix string `key:"handler_prefix" def:"/health" doc:"Path. Below it, /live is 200 as long as the process serves HTTP, and /ready is 200 as long as the node and its engines deliver, else 503."`
	Mode          string `key:"mode" def:"ready" enum:"ready|live" doc:"What the path itself answers: the same as /ready, or the same as /live."`
}

// Swagger is the documentation of the HTTP API.
type Swagger struct {
	Enabled       bool   `key:"enabled" opt:"flag"`
	HandlerPrefix string `key:"handler_prefix" def:"/swagger" doc:"Path of the page. The document is below it, at /openapi.json."`
}

// Debug has the profiling endpoints.
type Debug struct {
	Enabled       bool   `key:"enabled" opt:"flag"`
	HandlerPrefix string `key:"handler_prefix" def:"/debug/pprof" doc:"Path."`
}

// Flight is the flight recorder.
type Flight struct {
	Disabled bool `key:"disabled" doc:"Record nothing."`
	Size     int  `key:"size" def:"8388608" min:"262144" max:"1073741824" doc:"Bytes of the node's memory that it takes at most, of which it takes no more than it has needed. The oldest events are forgotten."`
}

// Bytes is Size, or negative if nothing is to be recorded.
func (f *Flight) Bytes() int {
	if f.Disabled {
		return -1
	}
	return f.Size
}

// OpenTelemetry sets which requests, calls and messages are traced.
type OpenTelemetry struct {
	Enabled            bool   `key:"enabled" doc:"Export what the other keys switch on. The variables OTEL_* say where to and how (docs/tracing.md); the collector is expected on this machine by default."`
	Metrics            bool   `key:"metrics" doc:"Push all metrics by OTLP, every 60 s or as OTEL_METRIC_EXPORT_INTERVAL says. prometheus.enabled is not needed for that, but its other keys count."`
	API                bool   `key:"api" doc:"Trace requests to the server API, over HTTP and gRPC, and what the node does for them. A request that has a traceparent is a part of that trace."`
	Consuming          bool   `key:"consuming" doc:"Trace the messages of consumers. A message with an attribute traceparent is a part of that trace."`
	Proxy              bool   `key:"proxy" doc:"Trace calls to the backend, and send it traceparent. Gyro's own key."`
	Client             bool   `key:"client" doc:"Trace what the node does for clients: handlers, proxies and engines, one trace for each command. Set sampler as well where there are many. Gyro's own key."`
	Sampler            string `key:"sampler" doc:"Which traces are exported: always_on, always_off, traceidratio=0.1, or the same with parentbased_ before it, which keeps what the caller decided for its own traces. Empty: OTEL_TRACES_SAMPLER, else parentbased_always_on. Gyro's own key."`
	GoogleCloudADCAuth bool   `key:"google_cloud_adc_auth" doc:"Authenticate at the collector by Google application default credentials. With grpc this needs TLS."`
}

// Graphite exports metrics to Graphite.
type Graphite struct {
	Enabled  bool          `key:"enabled" doc:"Push all metrics to Graphite. prometheus.enabled is not needed for that, but its other keys count."`
	Host     string        `key:"host" def:"localhost"`
	Port     int           `key:"port" def:"2003" min:"1" max:"65535" doc:"Port of the plaintext protocol."`
	Prefix   string        `key:"prefix" def:"centrifugo" doc:"What paths begin with. The name of the node follows, with underscores in place of dots and of characters that are not ASCII."`
	Interval time.Duration `key:"interval" def:"10s" min:"1000000000" doc:"Time between two pushes."`
	Tags     bool          `key:"tags" doc:"Write labels as tags (;name=value) in place of parts of the path."`
}
