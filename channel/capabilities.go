package channel

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"
)

// Rights are what a client may do in a channel, whatever the rules of the channel say. They never take anything away.
type Rights uint8

// The rights, which can be added.
const (
	// RightSubscribe: subscribe to the channel.
	RightSubscribe Rights = 1 << iota
	// RightPublish: publish into the channel, or change the map.
	RightPublish
	// RightPresence: read presence and its counts, and get joins and leaves.
	RightPresence
	// RightHistory: read history, and have a subscription that is positioned or recovers.
	RightHistory

	allRights = RightSubscribe | RightPublish | RightPresence | RightHistory
)

// rightNames are the names of rights in tokens and in answers of backends, by their bits.
var rightNames = [...]string{"sub", "pub", "prs", "hst"}

// ParseRights returns the rights with the names sub, pub, prs and hst. The error tells of the first other name.
func ParseRights(names []string) (r Rights, err error) {
	for _, name := range names {
		i := slices.Index(rightNames[:], name)
		if i < 0 {
			return 0, fmt.Errorf("right %q is not one of %s", name, strings.Join(rightNames[:], ", "))
		}
		r |= 1 << i
	}
	return r, nil
}

// Has reports whether r has all rights of others.
func (r Rights) Has(others Rights) bool { return r&others == others }

// Match is how a Capability names channels.
type Match string

// The matches.
const (
	// MatchExact: by their names.
	MatchExact Match = ""
	// MatchWildcard: by names in which each * stands for any number of any characters.
	MatchWildcard Match = "wildcard"
	// MatchRegex: by regular expressions of package regexp, which may match any part of a name.
	MatchRegex Match = "regex"
)

// Capability gives rights on channels.
type Capability struct {
	Channels []string
	Allow    Rights
	Match    Match
}

// Capabilities are the rights of one client on channels: all that one of the elements gives. Nil gives none. They never
// change, and any goroutine may use them.
type Capabilities struct {
	exact     []named // sorted by name
	wildcards []named
	regexps   []expression
}

type named struct {
	name  string
	allow Rights
}

type expression struct {
	*regexp.Regexp
	allow Rights
}

// NewCapabilities returns capabilities. The error names the element and its fault.
func NewCapabilities(list []Capability) (*Capabilities, error) {
	c := new(Capabilities)
	for i, of := range list {
		if of.Allow&^allRights != 0 {
			return nil, fmt.Errorf("capability %d allows unknown rights", i)
		}
		for _, name := range of.Channels {
			if err := c.add(name, of); err != nil {
				return nil, fmt.Errorf("capability %d: %w", i, err)
			}
		}
	}
	slices.SortStableFunc(c.exact, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return c, nil
}

func (c *Capabilities) add(name string, of Capability) error {
	switch of.Match {
	case MatchExact:
		c.exact = append(c.exact, named{name, of.Allow})
	case MatchWildcard:
		c.wildcards = append(c.wildcards, named{name, of.Allow})
	case MatchRegex:
		re, err := compiled(name)
		if err != nil {
			return err
		}
		c.regexps = append(c.regexps, expression{re, of.Allow})
	default:
		return fmt.Errorf("match %q is not %q, %q or %q", string(of.Match), string(MatchExact), string(MatchWildcard), string(MatchRegex))
	}
	return nil
}

// On returns the rights on a channel.
func (c *Capabilities) On(channel string) (r Rights) {
	if c == nil {
		return 0
	}
	i, _ := slices.BinarySearchFunc(c.exact, channel, func(n named, channel string) int { return strings.Compare(n.name, channel) })
	for ; i < len(c.exact) && c.exact[i].name == channel; i++ {
		r |= c.exact[i].allow
	}
	for _, w := range c.wildcards {
		if !r.Has(w.allow) && wild(w.name, channel) {
			r |= w.allow
		}
	}
	for _, e := range c.regexps {
		if !r.Has(e.allow) && e.MatchString(channel) {
			r |= e.allow
		}
	}
	return r
}

// wild reports whether a name is pattern with some characters in place of each *. It looks at each character of the name
// once for each part of the pattern at most.
func wild(pattern, name string) bool {
	begin, rest, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, begin)
	for ok {
		var part string
		if part, rest, any = strings.Cut(rest, "*"); !any {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return false
}

// expressions has the regular expressions of all capabilities in the process, by their texts, as long as one has them.
// An expression takes some KB and some tens of microseconds, and clients usually have the same ones.
var expressions sync.Map // string to weak.Pointer[regexp.Regexp]

func compiled(text string) (*regexp.Regexp, error) {
	if known, ok := expressions.Load(text); ok {
		if re := known.(weak.Pointer[regexp.Regexp]).Value(); re != nil {
			return re, nil
		}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := weak.Make(re)
	expressions.Store(text, p)
	runtime.AddCleanup(re, func(p weak.Pointer[regexp.Regexp]) { expressions.CompareAndDelete(text, p) }, p)
	return re, nil
}
