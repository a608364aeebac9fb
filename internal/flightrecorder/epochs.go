package flightrecorder

import (
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/guard"
)

// Ways of a node to notice that a stream has another epoch.
const (
	ByPublication = "publication"
	ByCheck       = "check" // of positions
	ByRecovery    = "recovery"
)

// Epochs records that streams have begun anew: once per minute, although all subscribers of a channel notice it. Any
// goroutine may use it. A nil Epochs records nothing.
type Epochs struct {
	ring *Ring
	once guard.PerMinute
}

// Epochs returns nil if r is nil.
func (r *Recorder) Epochs() *Epochs {
	if r == nil {
		return nil
	}
	return &Epochs{ring: r.Node()}
}

// maxEpoch bounds the bytes of an epoch, so that two of them are one text.
const maxEpoch = 100

// Compare records that the stream of a channel had another epoch before, and reports whether it had. An empty epoch is
// not known.
func (e *Epochs) Compare(by, ch, before, now string) (anew bool) {
	if before == now || before == "" || now == "" {
		return false
	}
	if e != nil && e.once.Allow(ch, now) {
		e.ring.Add(time.Now().UnixNano(), &Record{
			Kind: inspect.NewEpoch, Channel: ch, What: by, Text: before[:min(len(before), maxEpoch)], Key: now[:min(len(now), maxEpoch)],
		})
	}
	return true
}

// Recovered is Compare for a client that comes back. It returns the text for the event of its recovery.
func (e *Epochs) Recovered(ch string, since, top channel.StreamPosition) (text string) {
	if e.Compare(ByRecovery, ch, since.Epoch, top.Epoch) {
		return inspect.Anew
	}
	return ""
}
