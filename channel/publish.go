package channel

import "time"

// PublishOptions of one publication.
//
// A node refuses options that contradict each other: one of HistorySize and HistoryTTL
// without the other, negative values, a HistoryMetaTTL below HistoryTTL, Delta or Version
// without history (unless SkipHistory is set), IdempotencyTTL without IdempotencyKey. The
// error names the fields.
type PublishOptions struct {
	// HistorySize is the most publications the stream keeps; HistoryTTL how long it keeps them after the last one. If
	// both are 0, the node takes the two values of the channel's Options. If they are 0, too, the publication is
	// delivered with offset 0 and not remembered.
	HistorySize int
	HistoryTTL  time.Duration
	// HistoryMetaTTL is how long top offset and epoch outlive the last use. 0 means Options.HistoryMetaTTL of the
	// channel, and if it is 0, too, the broker's default (30 days).
	HistoryMetaTTL time.Duration
	// IdempotencyKey suppresses a repeated publish within IdempotencyTTL (0: 300 s),
	// scoped per channel. It counts before Version does, and a publish suppressed by
	// its version does not take the key.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// Version suppresses the publish unless it is greater than the remembered version. The stream remembers Version and
	// VersionEpoch of the last publication that had a version, as long as it remembers its position. With another
	// VersionEpoch than the remembered one the publish is never suppressed; an empty VersionEpoch equals any. Version
	// needs history. 0 means no version, and leaves the remembered one as it is.
	Version      uint64
	VersionEpoch string
	// Delta sends subscribers that negotiated it only the difference to the previous
	// publication. It needs history.
	Delta bool
	// SkipHistory delivers the publication with offset 0 without remembering it, although the channel keeps a history.
	// HistorySize and HistoryTTL must be 0 then. Default: false.
	SkipHistory bool
	// Tags, Info and Version are copied to the publication, where engines find them.
	Tags map[string]string
	// Info describes the client, if the node publishes on behalf of one.
	Info *ClientInfo
}

// Kept tells whether the stream keeps the publication.
func (o *PublishOptions) Kept() bool { return o.HistorySize > 0 && o.HistoryTTL > 0 }

// Publication returns a publication of data with the Info, Tags and Version of the options.
func (o *PublishOptions) Publication(data []byte) Publication {
	return Publication{Data: data, Info: o.Info, Tags: o.Tags, Version: o.Version}
}

// SuppressReason tells why a publish changed nothing.
type SuppressReason string

const (
	SuppressIdempotency SuppressReason = "idempotency"
	SuppressVersion     SuppressReason = "version"
)

// PublishResult of an accepted publish.
type PublishResult struct {
	// Position of the publication, or of the stream's top if it was suppressed by
	// version; zero without history.
	Position StreamPosition
	// Suppressed is empty if the publication was delivered.
	Suppressed SuppressReason
}

// BatchPublication is one of many publications that are made at once.
type BatchPublication struct {
	Channel string
	// Data is as for Node.Publish. Elements may share it.
	Data []byte
	// Options are not changed, and may be shared; nil for none.
	Options *PublishOptions

	// Result and Err are the outcome.
	Result PublishResult
	Err    error
}
