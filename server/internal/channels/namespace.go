// Package channels resolves the names of channels to their options, decides on operations of clients
// (docs/permissions.md), and makes options of the node of them. It does no I/O: if a token or a proxy decides, the
// decision says so.
package channels

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/config"
)

// SubscriptionType is the number that the protocol has for a type of subscription.
type SubscriptionType int32

const (
	Stream SubscriptionType = iota
	Map
	MapClients
	MapUsers
	SharedPoll
)

var types = map[string]SubscriptionType{
	"": Stream, config.TypeStream: Stream, config.TypeMap: Map, config.TypeMapClients: MapClients,
	config.TypeMapUsers: MapUsers, config.TypeSharedPoll: SharedPoll,
}

// Options are the effective options of a namespace: PublicationDataFormat and HistoryMetaTTL are the global ones if the
// namespace sets none. They are shared and must not be modified.
type Options struct {
	config.ChannelOptions
	// Name is empty for channels without a namespace.
	Name string
	Type SubscriptionType
	// ClientsMap and UsersMap are the options of the presence maps; nil without.
	ClientsMap, UsersMap *Options
	// FullStates are the prefixes of the full-state channels in the namespace. If there are any, it has no other
	// channels.
	FullStates []string
	// presencePrefixes are the prefixes of the presence maps in the namespace.
	presencePrefixes []string
	granted          gyro.SubscribeOptions
	regex            *regexp.Regexp
}

// Resolver finds the options of channels. It is immutable, and its methods do not allocate.
type Resolver struct {
	naming
	// personalPrefix begins the names of personal channels; empty: there are none.
	personalPrefix string

	plain   *Options            // of channels without a namespace
	options map[string]*Options // of namespaces
}

type naming struct {
	maxLength                                                     int
	tooLong                                                       error
	privatePrefix, namespaceBoundary, userBoundary, userSeparator string
}

// NewResolver returns a resolver of a validated configuration. Errors name the key.
func NewResolver(cfg config.Channel, own config.PersonalChannel) (*Resolver, error) {
	r := &Resolver{
		naming: naming{
			maxLength: cfg.MaxLength, tooLong: tooLong(cfg.MaxLength), privatePrefix: cfg.PrivatePrefix, namespaceBoundary: cfg.NamespaceBoundary,
			userBoundary: cfg.UserBoundary, userSeparator: cfg.UserSeparator,
		},
		options: make(map[string]*Options, len(cfg.Namespaces)+1),
	}
	if own.Enabled && cfg.UserBoundary != "" {
		r.personalPrefix = r.PersonalChannel(own.Namespace, "")
	}
	compile := func(key, name string, o config.ChannelOptions) (options *Options, err error) {
		options = &Options{ChannelOptions: o, Name: name, Type: types[o.SubscriptionType]}
		options.HistoryMetaTTL = cfg.MetaTTL(&o)
		if o.PublicationDataFormat == "" {
			options.PublicationDataFormat = cfg.PublicationDataFormat
		}
		options.granted = granted(&options.ChannelOptions)
		if o.ChannelRegex != "" {
			if options.regex, err = regexp.Compile(o.ChannelRegex); err != nil {
				return nil, fmt.Errorf("%s.channel_regex: %w", key, err)
			}
		}
		return options, nil
	}
	var err error
	if r.plain, err = compile("channel.without_namespace", "", cfg.WithoutNamespace); err != nil {
		return nil, err
	}
	for i, n := range cfg.Namespaces {
		if r.options[n.Name], err = compile(config.Element("channel.namespaces", i, n.Name), n.Name, n.ChannelOptions); err != nil {
			return nil, err
		}
	}
	r.linkPresence(r.plain)
	for _, o := range r.options {
		r.linkPresence(o)
	}
	for name, prefixes := range cfg.FullStates() {
		r.options[name].FullStates = prefixes
	}
	return r, nil
}

// Each calls f with the options of each namespace, and of channels without one.
func (r *Resolver) Each(f func(of *Options)) {
	f(r.plain)
	for _, o := range r.options {
		f(o)
	}
}

func (r *Resolver) linkPresence(o *Options) {
	o.ClientsMap, o.UsersMap = r.derive(o.MapClientsPresence), r.derive(o.MapUsersPresence)
}

// Channel is a resolved channel name.
type Channel struct {
	// Name is the complete name.
	Name string
	// Rest is the name after the namespace; without a namespace, the complete name with its private prefix.
	Rest string
	*Options
	resolver *Resolver
}

// Resolve returns the channel of a name, which it does not check; false if its namespace is unknown.
func (r *Resolver) Resolve(name string) (Channel, bool) {
	ch := Channel{Name: name, Rest: name, Options: r.plain, resolver: r}
	trimmed := name
	if r.privatePrefix != "" {
		trimmed = strings.TrimPrefix(name, r.privatePrefix)
	}
	if r.namespaceBoundary != "" {
		if before, after, ok := strings.Cut(trimmed, r.namespaceBoundary); ok {
			ch.Rest = after
			if before != "" {
				ch.Options = r.options[before]
			}
		}
	}
	return ch, ch.Options != nil
}

// Namespace returns the name of a channel's namespace, even of an unknown one; empty without one.
func (r *Resolver) Namespace(name string) string {
	if ch, known := r.Resolve(name); known {
		return ch.Options.Name
	}
	before, _, _ := strings.Cut(strings.TrimPrefix(name, r.privatePrefix), r.namespaceBoundary)
	return before
}

// Named resolves a name of the server API, a token or a personal channel. The error wraps ErrTooLong or
// protocol.ErrorUnknownChannel.
func (r *Resolver) Named(name string) (ch Channel, err error) { return r.named(name, nil) }

func (r *Resolver) named(name string, t *trace) (ch Channel, err error) {
	if t.length(r.maxLength, len(name)) {
		return ch, r.tooLong
	}
	ch, ok := r.Resolve(name)
	if !t.known(ok, r, name) {
		err = errUnknown
	}
	return ch, err
}

// ForClient resolves a name in a command of a client, with more checks than Named. The error wraps a protocol.Disconnect
// or *protocol.Error.
func (r *Resolver) ForClient(name string) (Channel, error) { return r.forClient(name, nil) }

func (r *Resolver) forClient(name string, t *trace) (Channel, error) {
	if name == "" {
		return Channel{}, errNoName
	}
	ch, err := r.named(name, t)
	if err == nil && !t.valid(ch.validName(), ch.Options) {
		err = ch.wrongName()
	}
	return ch, err
}

// Covers tells whether subscribers of the wildcard channel pattern get the publications of name, which matches it: if
// both are in one namespace, and name is neither private, user-limited nor personal, nor shows such a channel.
func (r *Resolver) Covers(pattern, name string) bool {
	p, known := r.Resolve(pattern)
	ch, also := r.Resolve(name)
	if !known || !also || p.Options != ch.Options || len(name) > r.maxLength || !ch.validName() {
		return false
	}
	m := ch.shown()
	return !m.Private() && !m.UserLimited() && !m.personal()
}

// PersonalChannel returns the name of a user's personal channel in a namespace, which may be empty.
func (r *Resolver) PersonalChannel(namespace, user string) string {
	if namespace == "" {
		return r.userBoundary + user
	}
	return namespace + r.namespaceBoundary + r.userBoundary + user
}

// validName requires that the rest of the name matches channel_regex, or without one that the name is ASCII.
func (c Channel) validName() bool {
	if c.regex != nil {
		return c.regex.MatchString(c.Rest)
	}
	for i := range len(c.Name) {
		if c.Name[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Private reports whether the name begins with the private prefix.
func (c Channel) Private() bool {
	return c.resolver.privatePrefix != "" && strings.HasPrefix(c.Name, c.resolver.privatePrefix)
}

// UserLimited reports whether the name lists the users that may subscribe.
func (c Channel) UserLimited() bool {
	return c.AllowUserLimitedChannels && c.resolver.userBoundary != "" && strings.Contains(c.Name, c.resolver.userBoundary)
}

// ListsUser reports whether the list after the last user boundary has the user. Boundaries are found from the left. The
// anonymous user is in no list.
func (c Channel) ListsUser(user string) bool {
	if user == "" {
		return false
	}
	list := ""
	for part := range strings.SplitSeq(c.Name, c.resolver.userBoundary) {
		list = part // the last one remains
	}
	if c.resolver.userSeparator == "" {
		return list == user
	}
	for item := range strings.SplitSeq(list, c.resolver.userSeparator) {
		if item == user {
			return true
		}
	}
	return false
}
