// Package keys makes the names of keys and PUB/SUB channels in Redis (engines.md
// 8.4).
package keys

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/protocol"
)

// Kind of keys or PUB/SUB channels, as it stands between prefix and channel.
type Kind string

// Kinds of names.
const (
	Client     Kind = ".client."
	Stream     Kind = ".stream."
	StreamMeta Kind = ".stream.meta."
	List       Kind = ".list."
	ListMeta   Kind = ".list.meta."
	result     Kind = ".result."

	// Kinds for Names.Presence.
	Presence     Kind = ".presence.data."
	PresenceLife Kind = ".presence.expire."
	Users        Kind = ".presence.user.clients."
	UsersLife    Kind = ".presence.user.expire."
)

// Names makes the names of one shard. With hash tags, all keys of a channel are
// in one slot of a Cluster, so that a script can use them.
type Names struct {
	Prefix     string
	Cluster    bool
	Partitions int // of sharded PUB/SUB; 0 without
}

// Partition of a channel whose hash is given, or 0.
func (n *Names) Partition(hash uint64) int {
	if n.Partitions == 0 {
		return 0
	}
	return Jump(hash, n.Partitions)
}

// Append appends the name of kind for a channel whose hash is given.
//
// No two channels share a key. Where there are no hash tags, the stream of channel
// meta.X would have the name of the meta key of channel X. So the history of a channel
// that begins with "meta." has a name of its own, prefix.stream:meta.X, in which it is
// not found by Centrifugo, and does not find what Centrifugo left.
func (n *Names) Append(dst []byte, kind Kind, ch string, hash uint64) []byte {
	dst = append(dst, n.Prefix...)
	dst = append(dst, kind...)
	if strings.HasPrefix(ch, "meta.") && (kind == Stream || kind == List) && !n.Cluster {
		dst[len(dst)-1] = ':'
	}
	return n.appendChannel(dst, ch, hash)
}

// AppendResult appends the name of the result of an idempotency key. The last dot
// divides channel and key. A key that has dots would make that ambiguous; its name
// has another kind, and the length of the channel.
func (n *Names) AppendResult(dst []byte, ch string, hash uint64, key string) []byte {
	dst = append(dst, n.Prefix...)
	dst = append(dst, result...)
	if strings.IndexByte(key, '.') >= 0 {
		dst[len(dst)-1] = ':'
		dst = append(strconv.AppendInt(dst, int64(len(ch)), 10), ':')
	}
	dst = append(n.appendChannel(dst, ch, hash), '.')
	return append(dst, key...)
}

func (n *Names) appendChannel(dst []byte, ch string, hash uint64) []byte {
	switch {
	case n.Partitions > 0:
		dst = append(dst, '{')
		dst = strconv.AppendInt(dst, int64(n.Partition(hash)), 10)
		dst = append(dst, "}."...)
		return append(dst, ch...)
	case n.Cluster:
		dst = append(dst, '{')
		dst = append(dst, ch...)
		return append(dst, '}')
	default:
		return append(dst, ch...)
	}
}

// Size is more than the name of any kind has that Append makes for a channel.
func (n *Names) Size(ch string) int { return len(n.Prefix) + len(ch) + 40 }

// Presence is the name of a kind of presence, whose hash tag is always the channel.
func (n *Names) Presence(kind Kind, ch string) string {
	if n.Cluster {
		return n.Prefix + string(kind) + "{" + ch + "}"
	}
	return n.Prefix + string(kind) + ch
}

// Mark is the key of the marks that a node writes in a slot of a Cluster, or in a server
// if tag is empty.
func (n *Names) Mark(node, tag string) string {
	if tag == "" {
		return n.Prefix + ".mark." + node
	}
	return n.Prefix + ".mark.{" + tag + "}." + node
}

// PartitionTag is the hash tag of a partition: in braces, it puts a name into the
// partition's slot.
func PartitionTag(partition int) string { return strconv.Itoa(partition) }

// Service is the channel of the canaries of a connection of one node: nodes do
// not hear each other's. A partition's name has its tag; -1 is none.
func (n *Names) Service(shard int, node string, partition int) string {
	name := fmt.Sprintf("%s.shard.%d", n.Prefix, shard)
	if partition >= 0 {
		name += ".{" + PartitionTag(partition) + "}"
	}
	return name + "." + node
}

// Control is the channel that all nodes hear.
func Control(prefix string) string { return prefix + ".control" }

// NodeControl is the channel that one node hears.
func NodeControl(prefix, node string) string { return prefix + ".node." + node }

// Check refuses channels that the shard cannot have.
func (n *Names) Check(ch string) error {
	if n.Partitions > 0 {
		return nil
	}
	return n.CheckPresence(ch)
}

// CheckPresence refuses channels whose presence the shard cannot have: partitions
// do not count there.
func (n *Names) CheckPresence(ch string) error {
	if n.Cluster && (ch == "" || ch[0] == '}') {
		return fmt.Errorf("redis: in a Cluster, a channel must not be empty nor begin with }: %w", protocol.ErrorBadRequest)
	}
	return nil
}

// Part returns the channel as a part of its name of kind Client, where it stands at
// the end but for a brace: one string in memory is enough.
func Part(name, ch string) string {
	if name[len(name)-1] == '}' && len(name) > len(ch) && name[len(name)-1-len(ch):len(name)-1] == ch &&
		name[len(name)-len(ch)-2] == '{' {
		return name[len(name)-1-len(ch) : len(name)-1]
	}
	return name[len(name)-len(ch):]
}
