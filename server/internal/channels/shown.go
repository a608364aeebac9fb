package channels

import (
	"slices"
	"strings"
)

// derive adds the prefix of a presence map to the options of its namespace, which it returns.
func (r *Resolver) derive(prefix string) *Options {
	if prefix == "" {
		return nil
	}
	ch, known := r.Resolve(prefix)
	if known && !slices.Contains(ch.Options.presencePrefixes, prefix) {
		ch.Options.presencePrefixes = append(ch.Options.presencePrefixes, prefix)
	}
	return ch.Options
}

// FullState returns the map that a full-state channel shows.
func (r *Resolver) FullState(name string) (of Channel, ok bool) {
	ch, known := r.Resolve(name)
	if !known {
		return of, false
	}
	return ch.fullState()
}

func (c Channel) fullState() (of Channel, ok bool) {
	return c.derived(c.FullStates, func(of *Options, prefix string) bool { return of.Map.FullStatePrefix == prefix })
}

// presenceOf returns the channel of a presence map.
func (c Channel) presenceOf() (of Channel, ok bool) {
	return c.derived(c.presencePrefixes, func(of *Options, prefix string) bool {
		return of.MapClientsPresence == prefix || of.MapUsersPresence == prefix
	})
}

func (c Channel) derived(prefixes []string, agree func(of *Options, prefix string) bool) (of Channel, ok bool) {
	for _, prefix := range prefixes {
		if rest, has := strings.CutPrefix(c.Name, prefix); has {
			if of, ok = c.resolver.Resolve(rest); ok && agree(of.Options, prefix) {
				return of, true
			}
		}
	}
	return Channel{}, false
}

// shown returns the channel that c shows: the map of a full-state channel, the channel of a presence map, else c itself.
func (c Channel) shown() Channel {
	for {
		of, ok := c.fullState()
		if !ok {
			of, ok = c.presenceOf()
		}
		if !ok {
			return c
		}
		c = of // its name is shorter
	}
}

// closed returns why a client cannot subscribe without a token, whatever the options of the namespace are; nil if the
// options decide. A closed channel is closed under derived names as well.
func (c Channel) closed(f Facts, t *trace) error {
	m := c.shown()
	derived := len(m.Name) < len(c.Name)
	if derived {
		t.fact(true, "the channel shows another channel, whose name it ends with")
	}
	switch {
	case t.name(m.Private(), "the channel's name begins with channel.private_prefix", "channel.private_prefix", c.resolver.privatePrefix):
		return denyPrivate()
	case f.Insecure:
	case m.personal() && !t.name(m.personalOf(f.User), "the personal channel is this user's", "client.subscribe_to_user_personal_channel.enabled", "on"):
		return errPersonal
	case derived && m.UserLimited() && !t.fact(m.ListsUser(f.User), "the name of the channel that is shown lists this user"):
		return m.denySubscribe(f)
	}
	return nil
}

func (c Channel) personal() bool {
	p := c.resolver.personalPrefix
	return p != "" && strings.HasPrefix(c.Name, p)
}

func (c Channel) personalOf(user string) bool {
	return user != "" && c.Name[len(c.resolver.personalPrefix):] == user
}
