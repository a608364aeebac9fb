package losses

import (
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
)

// Stream is the knowledge of a subscribed node about a stream. Any goroutine may use it. A nil Stream, of a channel that
// the node is not subscribed to, takes every note and knows nothing.
type Stream struct {
	mu sync.Mutex
	// last is the newest publication that was delivered; its offset is 0 if none was in its epoch. Its Channel is
	// constant.
	last Publication
	// top is the greatest offset in the epoch of last that was delivered or read.
	top uint64
	// earlier are epochs that the stream had before.
	earlier Epochs
	// renewal is when a read has to renew the life of the position, by enginekit.Since, while the revision is the same.
	renewal  int64
	revision uint64
	// provisional is the epoch to deliver in after an offset came twice, until the stream is verified.
	provisional *string
}

// NewStream returns an unknown stream.
func NewStream(ch string) *Stream { return &Stream{last: Publication{Channel: ch}} }

// Channel of the stream.
func (s *Stream) Channel() string { return s.last.Channel }

// Deliver notes a publication, and returns the epoch to deliver it in. again: its offset came twice.
func (s *Stream) Deliver(epoch []byte, offset uint64, data []byte) (in string, again bool) {
	sum := Sum(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.last
	switch {
	case s.earlier.Has(string(epoch)):
		return string(epoch), false // late, or the server has older data, which a verification finds out
	case last.Epoch != string(epoch):
		s.begin(channel.StreamPosition{Epoch: string(epoch)})
	case s.provisional != nil:
		return *s.provisional, false
	case offset > last.Offset:
	case offset == last.Offset && sum == last.Sum:
		return last.Epoch, false // the same publication
	default:
		var text commands.Strings
		provisional := text.Epoch()
		s.provisional = &provisional
		return provisional, true
	}
	last.Offset, last.Sum = offset, sum
	s.top = max(s.top, offset)
	return last.Epoch, false
}

// begin: nothing was delivered since this top. mu is held.
func (s *Stream) begin(top channel.StreamPosition) {
	if s.last.Epoch != "" && s.last.Epoch != top.Epoch {
		s.earlier = s.earlier.With(s.last.Epoch).Without(top.Epoch)
	}
	s.last.Epoch, s.last.Offset, s.last.Sum = top.Epoch, 0, 0
	s.top, s.provisional = top.Offset, nil
}

// Read notes the top of a read.
func (s *Stream) Read(top channel.StreamPosition) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.earlier.Has(top.Epoch) {
		return // a later answer came first
	}
	if s.last.Epoch != top.Epoch {
		s.begin(channel.StreamPosition{Epoch: strings.Clone(top.Epoch)})
	}
	s.top = max(s.top, top.Offset)
}

// Known returns the knowledge of the stream.
func (s *Stream) Known() Known {
	if s == nil {
		return Known{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Known{Epoch: s.last.Epoch, Offset: s.top}
}

// Candidate returns the last delivered publication, or the top of a read since. ok is false if the stream is not known.
func (s *Stream) Candidate() (c Candidate, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = Candidate{
		Publication: s.last, hash: format.Hash(s.Channel()), top: s.top, earlier: s.earlier, stream: s, provisional: s.provisional,
	}
	if c.Offset == 0 {
		c.Offset = c.top
	}
	return c, c.top > 0 || c.earlier != ""
}

// Moved notes another epoch, if from is the epoch of the last deliveries.
func (s *Stream) Moved(from string, top channel.StreamPosition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Epoch == from {
		s.begin(top)
	}
}

// Confirm ends a provisional epoch: the stream holds the deliveries, so no offset came twice.
func (s *Stream) Confirm(provisional *string) {
	if provisional == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provisional == provisional {
		s.begin(channel.StreamPosition{Epoch: s.last.Epoch, Offset: s.top})
	}
}

// Renewed: the next renewal is due after an eighth of ttl, or an hour.
func (s *Stream) Renewed(ttl time.Duration, revision uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewal, s.revision = enginekit.Since(time.Now().Add(min(ttl/8, time.Hour))), revision
}

// Lives tells whether the life of the position need not be renewed yet.
func (s *Stream) Lives(now time.Time, revision uint64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision == revision && enginekit.Since(now) < s.renewal
}
