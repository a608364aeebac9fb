// Package format is the form of Gyro's data in Redis, which is the form of Centrifugo 6: the names of keys and PUB/SUB
// channels, the Protobuf of publications and client infos, and the envelope with the place in the stream.
package format

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/protocol"
)

// KeyKind is a kind of names, as it stands between prefix and channel.
type KeyKind string

// Kinds of names.
const (
	ClientChannel KeyKind = ".client."
	Stream        KeyKind = ".stream."
	StreamMeta    KeyKind = ".stream.meta."
	List          KeyKind = ".list."
	ListMeta      KeyKind = ".list.meta."
	result        KeyKind = ".result."

	// Kinds of maps.
	MapEntries KeyKind = ".map.entries."
	MapOrder   KeyKind = ".map.order."
	MapDues    KeyKind = ".map.dues."

	Presence     KeyKind = ".presence.data."
	PresenceLife KeyKind = ".presence.expire."
	Users        KeyKind = ".presence.user.clients."
	UsersLife    KeyKind = ".presence.user.expire."
)

// Names makes the names of one shard. By hash tags, all keys of a channel are in one slot of a Cluster.
type Names struct {
	Prefix     string
	Cluster    bool
	Partitions int // of sharded PUB/SUB; 0 without
}

// Partition of a channel's hash, or 0.
func (n *Names) Partition(hash uint64) int {
	if n.Partitions == 0 {
		return 0
	}
	return Jump(hash, n.Partitions)
}

// Append appends the name of kind for a channel and its hash.
//
// No two channels share a key. Without hash tags, the stream of channel meta.X would have the name of the meta key of
// channel X. So a channel that begins with "meta." has its history in prefix.stream:meta.X.
func (n *Names) Append(dst []byte, kind KeyKind, ch string, hash uint64) []byte {
	dst = append(dst, n.Prefix...)
	dst = append(dst, kind...)
	if strings.HasPrefix(ch, "meta.") && (kind == Stream || kind == List) && !n.Cluster {
		dst[len(dst)-1] = ':'
	}
	return n.appendChannel(dst, ch, hash)
}

// AppendResult appends the name of the result of an idempotency key. The last dot divides channel and key. A key with
// dots would make that ambiguous, so its name has a colon behind the kind, and the length of the channel.
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

// Size is an upper bound of what Append makes.
func (n *Names) Size(ch string) int { return len(n.Prefix) + len(ch) + 40 }

// Presence returns a name of presence. Its hash tag is always the channel.
func (n *Names) Presence(kind KeyKind, ch string) string {
	if n.Cluster {
		return n.Prefix + string(kind) + "{" + ch + "}"
	}
	return n.Prefix + string(kind) + ch
}

// Mark returns the key of a node's mark, in the slot of tag if there is one.
func (n *Names) Mark(node, tag string) string { return n.own(".mark.", node, tag) }

// Sample returns the keys of the history beside a mark.
func (n *Names) Sample(node, tag string) (history, meta string) {
	return n.own(".sample.", node, tag), n.own(".sample.meta.", node, tag)
}

func (n *Names) own(kind, node, tag string) string {
	if tag == "" {
		return n.Prefix + kind + node
	}
	return n.Prefix + kind + "{" + tag + "}." + node
}

// Looks returns the key of a list of maps to look at. In a Cluster there are several.
func (n *Names) Looks(i int) string {
	if !n.Cluster {
		return n.Prefix + ".map.looks"
	}
	return n.Prefix + ".map.looks.{" + strconv.Itoa(i) + "}"
}

// PartitionTag is the hash tag that puts a name into the partition's slot.
func PartitionTag(partition int) string { return strconv.Itoa(partition) }

// CanaryChannel is for one connection of one node. The partition may be -1.
func (n *Names) CanaryChannel(shard int, node string, partition int) string {
	name := fmt.Sprintf("%s.shard.%d", n.Prefix, shard)
	if partition >= 0 {
		name += ".{" + PartitionTag(partition) + "}"
	}
	return name + "." + node
}

// ControlChannel is for control messages to all nodes.
func ControlChannel(prefix string) string { return prefix + ".control" }

// NodeChannel is for control messages to one node.
func NodeChannel(prefix, node string) string { return prefix + ".node." + node }

// Check refuses channels that the shard cannot have.
func (n *Names) Check(ch string) error {
	if n.Partitions > 0 {
		return nil
	}
	return n.CheckPresence(ch)
}

// CheckPresence is Check for presence, where partitions do not matter.
func (n *Names) CheckPresence(ch string) error {
	if n.Cluster && (ch == "" || ch[0] == '}') {
		return fmt.Errorf("redis: in a Cluster, a channel must not be empty nor begin with }: %w", protocol.ErrorBadRequest)
	}
	return nil
}

// Part returns the channel as a part of its name, so that both share memory.
func Part(name, ch string) string {
	if tagged, ok := strings.CutSuffix(name, "}"); ok && strings.HasSuffix(tagged, ch) && tagged[len(tagged)-len(ch)-1] == '{' {
		name = tagged
	}
	return name[len(name)-len(ch):]
}
