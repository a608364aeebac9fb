// Package channel has the plain data that every layer shares: publications, positions, options, and filters of histories
// and maps.
package channel

import "github.com/gyrohq/gyro/protocol"

// StreamPosition is a place in a channel's stream. Offsets of different epochs are not comparable. The zero value means
// "nothing known".
type StreamPosition struct {
	// Offset of a publication; the first of a stream has 1.
	Offset uint64
	// Epoch names one life of the stream. Only equality means anything.
	Epoch string
}

// ClientInfo identifies the client that published, joined or is present: User and Client, their IDs, ConnInfo and
// ChanInfo. See "go doc github.com/gyrohq/gyro/protocol.ClientInfo".
type ClientInfo = protocol.ClientInfo

// Publication is one message of a channel. It is immutable once a broker has it: all subscribers share it.
type Publication struct {
	// Offset in the stream; 0 if it is in none.
	Offset uint64
	// Data is JSON, unless the channel is Binary.
	Data []byte
	// Info of the publishing client; nil for a backend.
	Info *ClientInfo
	// Tags are delivered and feed tags filters.
	Tags map[string]string
	// Time of publishing, Unix milliseconds. Not sent to clients.
	Time int64
	// Version of the document by the publisher; 0 if none.
	Version uint64
	// Channel is the real channel if it is not the one subscribed to.
	Channel string
	// Key, Removed and Score belong to map channels.
	Key     string
	Removed bool
	// Checked is set by a node that knows that Data is JSON without line breaks. It is not sent to other nodes.
	Checked bool
	Score   int64
}

// Message returns p as a message of the client protocol. They share Data, Info and Tags.
func (p *Publication) Message() protocol.Publication {
	return protocol.Publication{
		Offset: p.Offset, Data: p.Data, Info: p.Info, Tags: p.Tags, Time: p.Time, Version: p.Version,
		Channel: p.Channel, Key: p.Key, Removed: p.Removed, Score: p.Score,
	}
}

// FromMessage undoes Publication.Message, without Delta, Epoch and PrevData.
func FromMessage(m *protocol.Publication) *Publication {
	return &Publication{
		Offset: m.Offset, Data: m.Data, Info: m.Info, Tags: m.Tags, Time: m.Time, Version: m.Version,
		Channel: m.Channel, Key: m.Key, Removed: m.Removed, Score: m.Score,
	}
}

// Memory has received publications. Its owner lends it in parts, and uses it again when all of them are free.
type Memory interface {
	// Free gives n parts back, whose publications no goroutine may look at afterwards. Any goroutine may call it. Parts
	// that are never freed become garbage.
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
