package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
	"github.com/gyrohq/gyro/server/internal/config/internal/schema"
)

var (
	namePattern     = regexp.MustCompile(`^[-a-zA-Z0-9_.]{2,}$`)
	consumerPattern = regexp.MustCompile(`^[a-zA-Z0-9_]{2,}$`)
	claimPattern    = regexp.MustCompile(`^[a-zA-Z_]+$`)
	labelPattern    = regexp.MustCompile(`^[a-zA-Z0-9_]{1,64}$`)
	metricPattern   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

// Validate checks the configuration. The error joins one error per violation, with the key and, unless it is a secret,
// the value.
func (c *Config) Validate() error {
	p := &problem.List{}
	p.Join(schema.Check(c))
	c.checkServer(p)
	c.checkEngines(p)
	c.checkClient(p)
	c.checkAPI(p)
	c.checkProxies(p)
	c.checkChannel(p)
	c.checkRPC(p)
	c.checkConsumers(p)
	c.checkNotification(p)
	c.UserStatus.Check(p, &c.Engine, c.Broker.Enabled && c.Broker.Type != engines.TypeMemory || c.Controller.Enabled)
	c.Admin.check(p)
	return p.Err()
}

func (c *Config) eachOptions(visit func(key string, o *ChannelOptions)) {
	visit("channel.without_namespace", &c.Channel.WithoutNamespace)
	for i := range c.Channel.Namespaces {
		n := &c.Channel.Namespaces[i]
		visit(Element("channel.namespaces", i, n.Name), &n.ChannelOptions)
	}
}

// Element is the key of a list element in messages, with index and name.
func Element(list string, i int, name string) string {
	return fmt.Sprintf("%s[%d](%s)", list, i, schema.Clip(name))
}

func (c *Config) checkServer(p *problem.List) {
	s := &c.HTTPServer
	if s.H2CExternal {
		if s.InternalPort == "" || s.InternalPort == strconv.Itoa(s.Port) {
			p.Add("http_server.h2c_external", "needs http_server.internal_port, different from http_server.port")
		}
		if s.TLS.Enabled {
			p.Add("http_server.h2c_external", "excludes http_server.tls.enabled")
		}
		if s.TLSAutocert.Enabled {
			p.Add("http_server.h2c_external", "excludes http_server.tls_autocert.enabled")
		}
	}
	if s.HTTP3.Enabled && !s.TLS.Enabled {
		p.Add("http_server.http3.enabled", "needs http_server.tls.enabled")
	}
	if s.HTTP3.Enabled && s.TLSAutocert.Enabled {
		p.Add("http_server.http3.enabled", "excludes http_server.tls_autocert.enabled")
	}
	if c.WebTransport.Enabled && !s.HTTP3.Enabled {
		p.Add("webtransport.enabled", "needs http_server.http3.enabled")
	}
	if s.InternalPort != "" {
		if n, err := strconv.ParseUint(s.InternalPort, 10, 16); err != nil || n == 0 {
			p.Add("http_server.internal_port", "%s is not a port from 1 to 65535", problem.Quote(s.InternalPort))
		}
	}
	c.checkMetrics(p)
	c.UniSSE.check(p, "uni_sse")
	c.UniHTTPStream.check(p, "uni_http_stream")
	if s := &c.UniSSE; s.RetryMax > 0 && s.RetryMin > s.RetryMax {
		p.Add("uni_sse.retry_min", "%s is more than uni_sse.retry_max, %s", s.RetryMin, s.RetryMax)
	}
	if t := c.UniPoll.Timeout; t < time.Second || t > 5*time.Minute {
		p.Add("uni_poll.timeout", "%s is not from 1s to 5m", t)
	}
}

func (c *Config) checkMetrics(p *problem.List) {
	m := &c.Prometheus
	if n := len(m.ClientLabels); n > observe.MaxClientLabels {
		p.Add("prometheus.client_labels", "%d labels are more than %d", n, observe.MaxClientLabels)
	}
	for i, key := range m.ClientLabels {
		if !labelPattern.MatchString(key) {
			p.Add("prometheus.client_labels", "%s is not a label of up to 64 letters, digits and underscores", problem.Quote(key))
		} else if slices.Contains(m.ClientLabels[:i], key) {
			p.Add("prometheus.client_labels", "%s is there twice", problem.Quote(key))
		}
	}
	if n := len(m.AdditionalClientNames); n > observe.MaxClientNames {
		p.Add("prometheus.additional_client_names", "%d names are more than %d", n, observe.MaxClientNames)
	}
	if (m.Enabled || c.Admin.Enabled) && !metricPattern.MatchString(m.Namespace) {
		p.Add("prometheus.namespace", "%s is not a name of up to 64 letters, digits and underscores", problem.Quote(m.Namespace))
	}
}

// minAPIKey is the shortest admin.api_key, in bytes.
const minAPIKey = 16

func (a *Admin) check(p *problem.List) {
	if a.APIKey != "" && len(a.APIKey) < minAPIKey {
		p.Add("admin.api_key", "has %d bytes, at least %d are expected", len(a.APIKey), minAPIKey)
	}
	if !a.Enabled {
		return
	}
	if !a.Insecure && a.APIKey == "" && (a.Password == "" || a.Secret == "") {
		p.Add("admin.enabled", "needs admin.password and admin.secret, without which no login is possible; gyro genconfig makes them")
	}
	if a.WebProxyAddress != "" {
		if u, err := url.Parse(a.WebProxyAddress); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			p.Add("admin.web_proxy_address", "is no URL of http or https")
		}
	}
}

func (u *UniHTTP) check(p *problem.List, section string) {
	for i, t := range u.ConnectCodeToHTTPResponse.Transforms {
		if t.Code == 0 || t.To.StatusCode == 0 {
			p.Add(fmt.Sprintf("%s.connect_code_to_http_response.transforms[%d]", section, i),
				"code and to.status_code must not be zero")
		} else if s := t.To.StatusCode; s < 200 || s > 599 {
			p.Add(fmt.Sprintf("%s.connect_code_to_http_response.transforms[%d].to.status_code", section, i),
				"%d is not a status from 200 to 599", s)
		}
	}
}

// checkAPI refuses tokens of clients for the server API.
func (c *Config) checkAPI(p *problem.List) {
	check := func(section string, own *APIJWKS) {
		if own.Enabled && own.Audience == "" && own.Scope == "" && c.clientsUse(own.Endpoint) {
			p.Add(section+".endpoint", "is also the JWKS of clients' tokens, so %s needs an audience or a scope that those tokens do not have", section)
		}
	}
	check("http_api.jwks", &c.HTTPAPI.JWKS)
	check("grpc_api.jwks", &c.GRPCAPI.JWKS)
}

func (c *Config) clientsUse(endpoint string) bool {
	for _, t := range []*Token{&c.Client.Token, &c.Client.SubscriptionToken.Token} {
		same := func(x JWKSProvider) bool { return x.Enabled && x.Endpoint == endpoint }
		if t.JWKSPublicEndpoint == endpoint || t.JWKS.Enabled && slices.ContainsFunc(t.JWKS.Providers, same) {
			return true
		}
	}
	return false
}

func (c *Config) checkClient(p *problem.List) {
	cl := &c.Client
	if _, err := NewOrigins(cl.AllowedOrigins); err != nil {
		p.Add("client.allowed_origins", "%w", err)
	}
	if cl.PingInterval <= cl.PongTimeout {
		p.Add("client.pong_timeout", "%s is not less than client.ping_interval, %s", cl.PongTimeout, cl.PingInterval)
	}
	cl.Token.check(p, "client.token")
	cl.SubscriptionToken.check(p, "client.subscription_token")
	cl.SubscriptionToken.checkMappings(p)
	for i, t := range cl.UniDisconnectOnConnect.Transforms {
		key := fmt.Sprintf("client.connect_code_to_unidirectional_disconnect.transforms[%d]", i)
		if t.Code == 0 || t.To.Code == 0 {
			p.Add(key, "code and to.code must not be zero")
		}
		t.To.check(p, key+".to")
		if !isASCII(t.To.Reason) {
			p.Add(key, "to.reason %s is not ASCII", problem.Quote(t.To.Reason))
		}
	}
	personal := &cl.UserPersonalChannel
	if !personal.Enabled {
		return
	}
	const key = "client.subscribe_to_user_personal_channel"
	options := c.options(personal.Namespace)
	if options == nil {
		p.Add(key+".personal_channel_namespace", "there is no namespace %s", problem.Quote(personal.Namespace))
	} else if personal.SingleConnection && !options.Presence {
		p.Add(key+".single_connection", "namespace %s needs presence", problem.Quote(personal.Namespace))
	}
}

func (c *Config) options(name string) *ChannelOptions {
	if name == "" {
		return &c.Channel.WithoutNamespace
	}
	for i := range c.Channel.Namespaces {
		if n := &c.Channel.Namespaces[i]; n.Name == name {
			return &n.ChannelOptions
		}
	}
	return nil
}

func (t *Token) check(p *problem.List, section string) {
	if t.UserIDClaim != "" && !claimPattern.MatchString(t.UserIDClaim) {
		p.Add(section+".user_id_claim", "%s has other characters than a-z, A-Z and _", problem.Quote(t.UserIDClaim))
	}
	for _, pair := range []struct{ key, exact, regex string }{
		{"audience", t.Audience, t.AudienceRegex},
		{"issuer", t.Issuer, t.IssuerRegex},
	} {
		key := section + "." + pair.key + "_regex"
		if pair.exact != "" && pair.regex != "" {
			p.Add(key, "excludes %s.%s", section, pair.key)
		}
		checkRegex(p, key, pair.regex)
	}
	t.JWKS.check(p, section+".jwks", t.JWKSPublicEndpoint != "")
}

// checkMappings: subscription tokens have no meta and labels.
func (t *SubscriptionToken) checkMappings(p *problem.List) {
	check := func(key string, meta, labels map[string]string) {
		if len(meta) > 0 {
			p.Add(key+".meta_from_claim", "is for connection tokens alone: a subscription has no meta")
		}
		if len(labels) > 0 {
			p.Add(key+".labels_from_claim", "is for connection tokens alone: a subscription has no labels")
		}
	}
	check("client.subscription_token", t.MetaFromClaim, t.LabelsFromClaim)
	for i := range t.JWKS.Providers {
		x := &t.JWKS.Providers[i]
		check(Element("client.subscription_token.jwks.providers", i, x.Name), x.MetaFromClaim, x.LabelsFromClaim)
	}
}

func (j *TokenJWKS) check(p *problem.List, section string, single bool) {
	if j.Enabled && single {
		p.Add(section+".enabled", "excludes jwks_public_endpoint")
	}
	names, sources := map[string]bool{}, map[[2]string]bool{}
	issuers := map[string]int{}
	for i := range j.Providers {
		x := &j.Providers[i]
		key := Element(section+".providers", i, x.Name)
		checkName(p, key, x.Name, consumerPattern, names)
		if !x.Enabled {
			continue
		}
		if x.Issuer == "" {
			p.Add(key+".issuer", "is required")
		}
		source := [2]string{x.Issuer, x.Audience}
		if issuers[x.Issuer]++; sources[source] || issuers[x.Issuer] > 1 && (x.Audience == "" || sources[[2]string{x.Issuer}]) {
			p.Add(key+".issuer", "several providers have this issuer, so each of them needs an audience of its own")
		}
		sources[source] = true
	}
}

func checkRegex(p *problem.List, key, pattern string) {
	if _, err := regexp.Compile(pattern); err != nil {
		p.Add(key, "%s is not a regular expression: %w", problem.Quote(pattern), err)
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func (c *Config) checkProxies(p *problem.List) {
	for _, use := range c.clientProxies() {
		c.checkProxyUse(p, "", &use)
	}
	seen := map[string]bool{}
	for i := range c.Proxies {
		x := &c.Proxies[i]
		key := Element("proxies", i, x.Name)
		checkUnreservedName(p, key, x.Name, seen)
		x.check(p, key)
	}
}

// checkName checks the name of an element. seen has the names before it.
func checkName(p *problem.List, key, name string, pattern *regexp.Regexp, seen map[string]bool) {
	if !pattern.MatchString(name) {
		p.Add(key, "name %s does not match %s", problem.Quote(name), pattern)
	}
	if seen[name] {
		p.Add(key, "name %s is given twice", problem.Quote(name))
	}
	seen[name] = true
}

// checkUnreservedName checks the name of an element that options refer to.
func checkUnreservedName(p *problem.List, key, name string, seen map[string]bool) {
	checkName(p, key, name, namePattern, seen)
	if name == DefaultProxy {
		p.Add(key, "the name default is reserved")
	}
}

func (x *Proxy) check(p *problem.List, key string) {
	if x.Endpoint == "" {
		p.Add(key+".endpoint", "is required")
	}
	if x.Timeout == 0 {
		p.Add(key+".timeout", "must not be zero")
	}
	for i, t := range x.HTTP.StatusToCodeTransforms {
		t.check(p, fmt.Sprintf("%s.http.status_to_code_transforms[%d]", key, i))
	}
}

func (t *ToDisconnect) check(p *problem.List, key string) {
	if err := (protocol.Disconnect{Code: uint32(t.Code)}).Check(); t.Code != 0 && err != nil {
		p.Add(key+".code", "%w", err)
	}
}

func (t *StatusTransform) check(p *problem.List, key string) {
	if t.StatusCode == 0 {
		p.Add(key+".status_code", "must not be zero")
	}
	if (t.ToError.Code != 0) == (t.ToDisconnect.Code != 0) {
		p.Add(key, "exactly one of to_error.code and to_disconnect.code must be set")
	}
	if err := (protocol.Error{Code: uint32(t.ToError.Code)}).Check(); t.ToError.Code != 0 && err != nil {
		p.Add(key+".to_error.code", "%w", err)
	}
	t.ToDisconnect.check(p, key+".to_disconnect")
	for _, text := range []struct{ key, value string }{
		{"to_error.message", t.ToError.Message},
		{"to_disconnect.reason", t.ToDisconnect.Reason},
	} {
		if !isASCII(text.value) || len(text.value) > 123 {
			p.Add(key+"."+text.key, "%s is not ASCII of at most 123 bytes", problem.Quote(text.value))
		}
	}
}

// checkProxyUse tests an option that names a proxy, and the default proxy if it is used. key is the key of the options.
func (c *Config) checkProxyUse(p *problem.List, key string, use *ProxyUse) {
	x, _ := use.Proxy(c)
	if x == nil {
		p.Add(key+"."+use.NameKey, "there is no proxy %s", problem.Quote(use.Name))
	} else if use.Enabled && x == use.Default {
		x.check(p, use.DefaultKey)
	}
}

func (c *Config) checkRPC(p *problem.List) {
	check := func(key string, o *RPCOptions) {
		use := c.rpcProxy(o)
		c.checkProxyUse(p, key, &use)
	}
	check("rpc.without_namespace", &c.RPC.WithoutNamespace)
	seen := map[string]bool{}
	for i := range c.RPC.Namespaces {
		n := &c.RPC.Namespaces[i]
		key := Element("rpc.namespaces", i, n.Name)
		checkName(p, key, n.Name, namePattern, seen)
		check(key, &n.RPCOptions)
	}
}
