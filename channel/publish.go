package channel

import "time"

// PublishOptions of one publication.
//
// A node refuses options that contradict each other, with an error that names the fields: one of HistorySize and
// HistoryTTL without the other, negative values, a HistoryMetaTTL below HistoryTTL, Delta or Version without history
// (unless SkipHistory is set), IdempotencyTTL without IdempotencyKey.
type PublishOptions struct {
	// HistorySize is the most publications the stream keeps, for HistoryTTL after the last one. If both are 0, the
	// channel's Options count. If they are 0, too, the publication has offset 0 and is not kept.
	HistorySize int
	HistoryTTL  time.Duration
	// HistoryMetaTTL is how long top offset and epoch outlive the last use. 0: Options.HistoryMetaTTL of the channel,
	// else the broker's default (30 days).
	HistoryMetaTTL time.Duration
	// IdempotencyKey suppresses a repeated publish in the channel within IdempotencyTTL (0: 300 s). It counts before
	// Version; a publish suppressed by its version does not take the key.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// Version suppresses the publish unless it is greater than the version of the last publication that had one, which
	// the stream remembers with VersionEpoch, as long as its position. With another VersionEpoch the publish is never
	// suppressed; an empty one equals any. It needs history. 0: no version.
	Version      uint64
	VersionEpoch string
	// Delta sends subscribers that negotiated it the difference to the publication before. It needs history.
	Delta bool
	// SkipHistory delivers the publication with offset 0, although the channel keeps a history. HistorySize and
	// HistoryTTL must be 0 then.
	SkipHistory bool
	// Tags go with the publication.
	Tags map[string]string
	// Info describes the client for which the node publishes, if there is one.
	Info *ClientInfo
}

// Kept tells whether the stream keeps the publication.
func (o *PublishOptions) Kept() bool { return o.HistorySize > 0 && o.HistoryTTL > 0 }

// Publication returns a publication of data by the options.
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
	// Position of the publication, or of the top if its version suppressed it; zero without history.
	Position StreamPosition
	// Suppressed is empty if the publication was delivered.
	Suppressed SuppressReason
}

// BatchPublication is one of many publications that are made at once.
type BatchPublication struct {
	Channel string
	// Data as for Node.Publish. Elements may share it.
	Data []byte
	// Options are not changed, and may be shared; nil for none.
	Options *PublishOptions

	Result PublishResult
	Err    error
}
