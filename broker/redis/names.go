package redis

import (
	"fmt"
	"strconv"

	"github.com/gyrohq/gyro/protocol"
)

// Kinds of keys and PUB/SUB channels (engines.md 8.4), as they stand between
// prefix and channel.
const (
	kindClient       = ".client."
	kindStream       = ".stream."
	kindStreamMeta   = ".stream.meta."
	kindList         = ".list."
	kindListMeta     = ".list.meta."
	kindResult       = ".result."
	kindPresence     = ".presence.data."
	kindPresenceLife = ".presence.expire."
	kindUsers        = ".presence.user.clients."
	kindUsersLife    = ".presence.user.expire."
)

// names makes the names of one shard. With hash tags, all keys of a channel are
// in one slot of a Cluster, so that a script can use them.
type names struct {
	prefix     string
	cluster    bool
	partitions int // of sharded PUB/SUB; 0 without
}

// partition of a channel, or 0.
func (n *names) partition(hash uint64) int {
	if n.partitions == 0 {
		return 0
	}
	return jump(hash, n.partitions)
}

// tag of a partition: with it in braces, names are in the partition's slot.
func tag(partition int) string { return strconv.Itoa(partition) }

// append appends the name of kind for a channel whose hash is given.
func (n *names) append(dst []byte, kind, ch string, hash uint64) []byte {
	dst = append(dst, n.prefix...)
	dst = append(dst, kind...)
	switch {
	case n.partitions > 0:
		dst = append(dst, '{')
		dst = strconv.AppendInt(dst, int64(n.partition(hash)), 10)
		dst = append(dst, "}."...)
		return append(dst, ch...)
	case n.cluster:
		dst = append(dst, '{')
		dst = append(dst, ch...)
		return append(dst, '}')
	default:
		return append(dst, ch...)
	}
}

// presence is the name of a kind of presence, whose hash tag is always the channel.
func (n *names) presence(kind, ch string) string {
	if n.cluster {
		return n.prefix + kind + "{" + ch + "}"
	}
	return n.prefix + kind + ch
}

// service is the channel of the canaries of a connection of one node: nodes do
// not hear each other's. A partition's name has its tag.
func (n *names) service(shard int, node string, partition int) string {
	name := fmt.Sprintf("%s.shard.%d", n.prefix, shard)
	if partition >= 0 {
		name += ".{" + tag(partition) + "}"
	}
	return name + "." + node
}

func controlName(prefix string) string           { return prefix + ".control" }
func nodeControlName(prefix, node string) string { return prefix + ".node." + node }

// check refuses channels that the shard cannot have.
func (n *names) check(ch string) error {
	if n.cluster && n.partitions == 0 && (ch == "" || ch[0] == '}') {
		return fmt.Errorf("redis: in a Cluster, a channel must not be empty nor begin with }: %w", protocol.ErrorBadRequest)
	}
	return nil
}

// hashOf is the FNV-1a 64 of a channel.
func hashOf(ch string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(ch) {
		hash = (hash ^ uint64(ch[i])) * 1099511628211
	}
	return hash
}

// jump is the jump consistent hash of Lamping and Veach: the bucket of n that a
// hash belongs to.
func jump(hash uint64, n int) int {
	if n <= 1 {
		return 0
	}
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		hash = hash*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((hash>>33)+1)))
	}
	return int(b)
}
