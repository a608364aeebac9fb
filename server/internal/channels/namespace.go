// Package channels resolves the names of channels to their options, decides about operations of clients on a channel
// (docs/permissions.md), and turns the options into options of the node. It does no I/O: where a token or a proxy
// decides, the decision says so.
package channels

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/config"
)

// SubscriptionType is the type of subscription that a subscribe command asks for. Its values
// are the numbers of the protocol.
type SubscriptionType int32

// Subscription types, as clients ask for them.
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

// Options are the effective options of a namespace: PublicationDataFormat and
// HistoryMetaTTL are the global ones where the namespace sets none. They are
// shared and must not be modified.
type Options struct {
	config.ChannelOptions
	// Name of the namespace; empty for channels without one.
	Name string
	// Type is SubscriptionType as a number.
	Type SubscriptionType
	// ClientsMap and UsersMap are the options of the maps that show the clients and the users in a channel; nil
	// without.
	ClientsMap, UsersMap *Options
	// FullStates are the prefixes of the full-state channels that the namespace is for; empty if it is an ordinary one.
	FullStates []string
	// presencePrefixes are the prefixes of the presence maps that the namespace is for.
	presencePrefixes []string
	granted          gyro.SubscribeOptions
	regex            *regexp.Regexp
}

// Resolver finds the options of channels. It is immutable and safe for concurrent use. Its
// methods do not allocate.
type Resolver struct {
	naming
	// personalPrefix begins the names of personal channels; empty if there are none.
	personalPrefix string

	plain   *Options            // of channels without a namespace
	options map[string]*Options // of namespaces
}

// naming has the global rules of names.
type naming struct {
	maxLength                                                     int
	tooLong                                                       error
	privatePrefix, namespaceBoundary, userBoundary, userSeparator string
}

// NewResolver returns a resolver of a validated configuration. An error names the key.
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

// Each calls f with the options of each namespace, and with the options of channels without a namespace.
func (r *Resolver) Each(f func(of *Options)) {
	f(r.plain)
	for _, o := range r.options {
		f(o)
	}
}

// linkPresence finds the namespaces that the prefixes of presence maps begin with.
func (r *Resolver) linkPresence(o *Options) {
	o.ClientsMap, o.UsersMap = r.derive(o.MapClientsPresence), r.derive(o.MapUsersPresence)
}

// Channel is a resolved channel name.
type Channel struct {
	// Name is the complete name.
	Name string
	// Rest is the name after the namespace; the complete name, with a private
	// prefix, if there is no namespace.
	Rest string
	// Options of the namespace; never nil.
	*Options
	resolver *Resolver
}

// Resolve returns the channel of a name; false if its namespace is unknown. It
// does not check the name otherwise.
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

// Namespace returns the name of a channel's namespace, even if that is unknown; it is empty for
// channels without a namespace.
func (r *Resolver) Namespace(name string) string {
	if ch, known := r.Resolve(name); known {
		return ch.Options.Name
	}
	before, _, _ := strings.Cut(strings.TrimPrefix(name, r.privatePrefix), r.namespaceBoundary)
	return before
}

// Named resolves a name from outside: of the server API, a token or a personal channel. Names in
// commands of clients need more checks (ForClient). The error wraps ErrTooLong or
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

// ForClient resolves a name in a command of a client. The error wraps a
// protocol.Disconnect or *protocol.Error.
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

// Covers tells whether subscribers of pattern, a channel with wildcards, get the publications of name, a channel that
// it matches. They do if a client that may subscribe to pattern may also subscribe to name: if both are in the same
// namespace, and name is neither private, user-limited nor personal, and stands for no such channel.
func (r *Resolver) Covers(pattern, name string) bool {
	p, known := r.Resolve(pattern)
	ch, also := r.Resolve(name)
	if !known || !also || p.Options != ch.Options || len(name) > r.maxLength || !ch.validName() {
		return false
	}
	m := ch.meant()
	return !m.Private() && !m.UserLimited() && !m.personal()
}

// PersonalChannel returns the name of a user's personal channel in a namespace,
// which may be empty.
func (r *Resolver) PersonalChannel(namespace, user string) string {
	if namespace == "" {
		return r.userBoundary + user
	}
	return namespace + r.namespaceBoundary + r.userBoundary + user
}

// validName applies channel_regex to the rest of the name, or if there is none,
// requires the whole name to be ASCII.
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

// Private reports whether the name starts with the private prefix.
func (c Channel) Private() bool {
	return c.resolver.privatePrefix != "" && strings.HasPrefix(c.Name, c.resolver.privatePrefix)
}

// UserLimited reports whether the name lists the users that may subscribe.
func (c Channel) UserLimited() bool {
	return c.AllowUserLimitedChannels && c.resolver.userBoundary != "" && strings.Contains(c.Name, c.resolver.userBoundary)
}

// ListsUser reports whether a user is in the list of a user-limited name. The list follows the last boundary, where
// boundaries are found from the left. The anonymous user is in no list: an empty element names no user.
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
