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

// maxSubject is the longest subject in bytes. Servers take lines of 4,096 bytes,
// and close the connection at longer ones.
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

	// channels are the names of raw subscriptions, whose subjects do not tell.
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
	n.channels = make(map[*natsio.Subscription]string)
	if len(cfg.Raw.Replacements) > 0 {
		n.replacer = newReplacer(cfg.Raw.Replacements)
	}
	return n
}

// newReplacer orders the pairs: where several match, the longest wins.
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

// toPublish returns the subject to publish to a channel.
func (n *names) toPublish(ch string) (string, error) {
	if hasWildcard(ch) {
		return "", fmt.Errorf("nats: wildcard in channel %.100q: %w", ch, protocol.ErrorBadRequest)
	}
	s, err := n.subject(ch)
	if err == nil && n.raw && hasWildcard(s) { // by a replacement
		err = fmt.Errorf("nats: wildcard in subject of channel %.100q: %w", ch, protocol.ErrorBadRequest)
	}
	return s, err
}

// toSubscribe returns the subject to subscribe to a channel.
func (n *names) toSubscribe(ch string) (string, error) {
	if !n.wildcards && hasWildcard(ch) {
		return "", fmt.Errorf("nats: wildcard in channel %.100q: %w", ch, protocol.ErrorBadRequest)
	}
	return n.subject(ch)
}

func (n *names) subject(ch string) (string, error) {
	s := ch
	if n.replacer != nil {
		s = n.replacer.Replace(ch)
	}
	s = n.prefix + s
	if len(s) > maxSubject {
		return "", fmt.Errorf("nats: subject of %d bytes for channel %.100q, limit %d: %w", len(s), ch, maxSubject, protocol.ErrorBadRequest)
	}
	if !validSubject(s) {
		return "", fmt.Errorf("nats: channel %.100q does not make a subject: %w", ch, protocol.ErrorBadRequest)
	}
	return s, nil
}

// channel returns the channel of a subscription.
func (n *names) channel(sub *natsio.Subscription) (string, bool) {
	if !n.raw {
		return strings.CutPrefix(sub.Subject, n.prefix)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	ch, ok := n.channels[sub]
	return ch, ok
}

// add and remove tell which channel a subscription is for.
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

// validSubject tells whether the server takes s as a subject, maybe with wildcards.
// One that it does not take costs the connection. No token is empty, and nothing
// follows the token ">".
func validSubject(s string) bool {
	start, full := 0, false
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != '.' {
			if isSpace(s[i]) {
				return false
			}
			continue
		}
		if i == start || full {
			return false
		}
		full = s[start:i] == ">"
		start = i + 1
	}
	return true
}

func isSpace(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\f', '\r', 0:
		return true
	}
	return false
}

func hasWildcard(s string) bool { return strings.ContainsAny(s, "*>") }
