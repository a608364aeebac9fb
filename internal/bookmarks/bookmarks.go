// Package bookmarks makes the bookmarks of one client: of all its subscriptions that have the form
// hub.Marked.
package bookmarks

import (
	"github.com/gyrohq/gyro/internal/channelset"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// Subscription is a pointer to a subscription.
type Subscription[T any] interface {
	channelset.Item[T]
	// At is the position of the subscription. Its epoch is empty until it is known.
	At() *position.Position
}

// Alone reports whether bookmarks name b only.
func Alone[T Subscription[T]](subs *channelset.Set[T], b T) bool {
	if subs.Len() == 1 {
		return true
	}
	for other := range subs.All() {
		if other != b && other.At().Form&hub.Marked != 0 {
			return false
		}
	}
	return true
}

// Append appends a line break and the line with the bookmark to a message, if the reply changes what
// the bookmark says. It appends nothing, and returns false, if the bookmark would exceed the limit of
// the kind.
func Append[T Subscription[T]](message []byte, r *protocol.Reply, subs *channelset.Set[T], k *connkind.Kind) ([]byte, bool) {
	ended := r.Push != nil && r.Push.Unsubscribe != nil
	if !ended && r.Connect == nil && (r.Push == nil || r.Push.Pub == nil && r.Push.Subscribe == nil) {
		return message, true
	}
	before := append(message, '\n')
	line := appendLine(before, subs)
	switch size := len(line) - len(before); {
	case size > k.Bookmarks:
		return message, false
	case size == len(bookmark.Prefix) && !ended:
		return message, true // there are no positions, so an empty bookmark would say nothing
	}
	return line, true
}

func appendLine[T Subscription[T]](dst []byte, subs *channelset.Set[T]) []byte {
	dst = append(dst, bookmark.Prefix...)
	for b := range subs.All() {
		if at := b.At(); at.Form&hub.Marked != 0 && at.Epoch != "" {
			dst = bookmark.Add(dst, b.Channel(), at.Offset, at.Epoch)
		}
	}
	return dst
}

// room is what a small bookmark takes at most, with its frame; bytes.
const room = 256

// Frame returns a frame in the arena with the bookmark that follows a message, and hub.Open, which is
// the form of that message. It returns nothing if the bookmark would exceed the limit of the kind.
func Frame[T Subscription[T]](a *sendqueue.Arena, subs *channelset.Set[T], k *connkind.Kind) ([]byte, hub.Form) {
	buf := append(a.Tail(room), make([]byte, k.Framer.Headroom())...) // this make does not allocate
	line := appendLine(buf, subs)
	if len(line)-len(buf) > k.Bookmarks {
		return nil, 0
	}
	return a.Commit(k.Framer.Frame(line)), hub.Open
}
