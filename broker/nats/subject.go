package nats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/protocol"
)

// maxSubject bounds subjects, in bytes: servers close the connection at lines above 4,096 bytes.
const maxSubject = 2048

// names translates between channels and subjects.
type names struct {
	prefix    string // of the subjects of channels
	control   string
	node      string // prefix of the subjects of nodes
	canary    string // prefix of the subjects of canaries
	wildcards bool
	raw       bool
	replacer  *strings.Replacer // nil if nothing is replaced
	// reserved are the subjects of Gyro's own that raw channels could reach, as patterns.
	reserved []string

	// channels has the channels of raw subscriptions, which their subjects do not tell.
	mu       sync.RWMutex
	channels map[*natsio.Subscription]string
}

func newNames(cfg *Config) *names {
	n := &names{
		prefix: cfg.Prefix + ".client.", control: cfg.Prefix + ".control", node: cfg.Prefix + ".node.",
		canary: cfg.Prefix + ".canary.", wildcards: cfg.AllowWildcards, raw: cfg.Raw.Enabled,
	}
	if !n.raw {
		return n
	}
	n.prefix = cfg.Raw.Prefix
	n.reserved = []string{n.control, n.control + ".>", n.node + ">", n.canary + ">", cfg.Prefix + ".client.>"}
	n.channels = make(map[*natsio.Subscription]string)
	if len(cfg.Raw.Replacements) > 0 {
		n.replacer = newReplacer(cfg.Raw.Replacements)
	}
	return n
}

// newReplacer orders the pairs so that the longest wins.
func newReplacer(m map[string]string) *strings.Replacer {
	type pair struct{ old, new string }
	var pairs []pair
	for k, v := range m {
		pairs = append(pairs, pair{k, v})
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(len(b.old), len(a.old)), cmp.Compare(a.old, b.old))
	})
	var args []string
	for _, p := range pairs {
		args = append(args, p.old, p.new)
	}
	return strings.NewReplacer(args...)
}

func (n *names) toPublish(ch string) (string, error) {
	s, err := n.subject(ch)
	if err == nil && (hasWildcard(ch) || n.raw && hasWildcard(s)) { // s: by a replacement
		err = refuse(protocol.ErrorBadRequest, "wildcard in channel %.100q", ch)
	}
	return s, err
}

func (n *names) toSubscribe(ch string) (string, error) {
	s, err := n.subject(ch)
	if err != nil || !hasWildcard(s) {
		return s, err
	}
	switch first := s[len(n.prefix)]; {
	case !n.wildcards:
		err = refuse(protocol.ErrorBadRequest, "wildcard in channel %.100q", ch)
	case first == '*' || first == '>':
		err = refuse(protocol.ErrorPermissionDenied, "channel %.100q begins with a wildcard", ch)
	}
	return s, err
}

// refuse returns an error whose reason clients see.
func refuse(as *protocol.Error, format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	return fmt.Errorf("nats: %w", &protocol.Error{Code: as.Code, Message: as.Message + ": " + why, Temporary: as.Temporary})
}

func (n *names) subject(ch string) (string, error) {
	s := ch
	if n.replacer != nil {
		s = n.replacer.Replace(ch)
	}
	s = n.prefix + s
	switch {
	case len(s) > maxSubject:
		return "", refuse(protocol.ErrorBadRequest, "subject of %d bytes for channel %.100q, limit %d", len(s), ch, maxSubject)
	case !validSubject(s):
		return "", refuse(protocol.ErrorBadRequest, "channel %.100q does not make a subject", ch)
	case n.raw && n.isReserved(s):
		return "", refuse(protocol.ErrorBadRequest, "channel %.100q makes subject %.100q, which is not for channels", ch, s)
	}
	return s, nil
}

// isReserved tells whether a valid subject, or one that it matches, belongs to NATS or to Gyro. toSubscribe refuses
// wildcards at the beginning.
func (n *names) isReserved(s string) bool {
	return ofSystem(s) || slices.ContainsFunc(n.reserved, func(r string) bool { return overlap(s, r) })
}

// ofSystem tells whether NATS keeps the first token of a subject for itself: $SYS, $JS, $KV and others in capitals
// behind a $, _INBOX and others behind a _.
func ofSystem(s string) bool {
	first, _, _ := strings.Cut(s, ".")
	if len(first) < 2 || first[0] != '$' && first[0] != '_' {
		return false
	}
	for _, c := range []byte(first[1:]) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// overlap tells whether a subject matches both patterns.
func overlap(a, b string) bool {
	for {
		var x, y string
		var moreA, moreB bool
		x, a, moreA = strings.Cut(a, ".")
		y, b, moreB = strings.Cut(b, ".")
		switch {
		case x == ">" || y == ">":
			return true
		case x != y && x != "*" && y != "*", moreA != moreB:
			return false
		case !moreA:
			return true
		}
	}
}

// matched returns the channel of a message for a wildcard, under a name that a client could use. With replacements that
// is the part of the pattern before the first wildcard, and what follows that part in the subject.
func (n *names) matched(pattern, subject string) (ch string, ok bool) {
	if i := strings.IndexAny(pattern, "*>"); n.replacer != nil && i >= 0 {
		rest, ok := strings.CutPrefix(subject, n.prefix+n.replacer.Replace(pattern[:i]))
		return pattern[:i] + rest, ok
	}
	return strings.CutPrefix(subject, n.prefix)
}

func (n *names) channel(sub *natsio.Subscription) (string, bool) {
	if !n.raw {
		return strings.CutPrefix(sub.Subject, n.prefix)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	ch, ok := n.channels[sub]
	return ch, ok
}

func (n *names) add(sub *natsio.Subscription, ch string) {
	if n.raw {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.channels[sub] = ch
	}
}

func (n *names) remove(sub *natsio.Subscription) {
	if n.raw {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.channels, sub)
	}
}

// validSubject tells whether the server takes s, perhaps with wildcards: no token is empty, and nothing follows the
// token ">". The server closes the connection at an invalid subject.
func validSubject(s string) bool {
	if strings.ContainsAny(s, " \t\n\f\r\x00") {
		return false
	}
	full := false
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || full {
			return false
		}
		full = token == ">"
	}
	return true
}

func hasWildcard(s string) bool { return strings.ContainsAny(s, "*>") }
