// Package channel holds the plain data that every layer of Gyro shares: publications and
// their options, positions in streams, history queries, client infos and subscription
// options. It imports nothing of Gyro but protocol's message types.
package channel

import "github.com/gyrohq/gyro/protocol"

// StreamPosition is a place in a channel's stream. Offsets of different epochs
// are not comparable. The zero value means "nothing known".
type StreamPosition struct {
	// Offset of a publication; the first publication of a stream has offset 1.
	Offset uint64
	// Epoch names one incarnation of the stream. Only equality means anything.
	Epoch string
}

// ClientInfo identifies the client that published, joined or is present: User and Client, their IDs, ConnInfo and
// ChanInfo. Clients get this very message. See "go doc github.com/gyrohq/gyro/protocol.ClientInfo".
type ClientInfo = protocol.ClientInfo

// Publication is one message of a channel. It is immutable once handed to a
// broker: it is shared by every subscriber, without copies.
type Publication struct {
	// Offset in the stream; 0 when the publication is not part of a stream.
	Offset uint64
	// Data is the payload: JSON, unless the channel is Binary.
	Data []byte
	// Info of the publishing client; nil when a backend published.
	Info *ClientInfo
	// Tags are delivered with the publication and feed tags filters.
	Tags map[string]string
	// Time of publishing, Unix milliseconds. Not sent to clients.
	Time int64
	// Version of the document as given by the publisher; 0 if none.
	Version uint64
	// Channel is the real channel if it is not the one subscribed to (wildcards).
	Channel string
	// Key, Removed and Score belong to map channels.
	Key     string
	Removed bool
	// Checked is set by a node that knows that Data is JSON without line breaks, so that no connection must check it
	// again. It is not sent to other nodes.
	Checked bool
	// Score: see Key.
	Score int64
}

// Message returns p as a message of the client protocol. They share Data, Info and Tags.
func (p *Publication) Message() protocol.Publication {
	return protocol.Publication{
		Offset: p.Offset, Data: p.Data, Info: p.Info, Tags: p.Tags, Time: p.Time, Version: p.Version,
		Channel: p.Channel, Key: p.Key, Removed: p.Removed, Score: p.Score,
	}
}

// FromMessage undoes Publication.Message. It leaves out Delta, Epoch and PrevData, which a
// publication does not have.
func FromMessage(m *protocol.Publication) *Publication {
	return &Publication{
		Offset: m.Offset, Data: m.Data, Info: m.Info, Tags: m.Tags, Time: m.Time, Version: m.Version,
		Channel: m.Channel, Key: m.Key, Removed: m.Removed, Score: m.Score,
	}
}

// Memory holds received publications. Its owner lends it in parts, and uses it again when
// all of them are free.
type Memory interface {
	// Free gives n parts back; afterwards no goroutine may look at their publications. Any goroutine may call it. If a
	// part is never freed, the garbage collector gets the memory.
	Free(n int)
}

// RecoveryMode says which missed publications a returning subscriber gets.
type RecoveryMode uint8

const (
	// RecoverStream delivers every missed publication or none.
	RecoverStream RecoveryMode = iota
	// RecoverCache delivers only the latest publication.
	RecoverCache
)
