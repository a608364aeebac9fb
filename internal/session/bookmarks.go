package session

import (
	"github.com/gyrohq/gyro/internal/channelset"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// A client that recovers by bookmarks gets the positions of all its subscriptions whose form is hub.Bookmarked behind each message
// that moves one of them.

// nameInBookmarks makes the bookmarks of the connection name a recoverable channel.
func (b *Subscription) nameInBookmarks(req *protocol.SubscribeRequest) {
	if bookmark.Size(b.channel) > b.s.via.Bookmarks {
		b.s.env.Explain(commandRefused, b.channel, errBookmark)
		return
	}
	b.at.Form |= hub.Bookmarked
	if req.Recover { // the position until the stream's own is read
		b.at.Offset, b.at.Epoch = req.Offset, req.Epoch
	}
}

func (s *Session) withBookmark(message []byte, r *protocol.Reply) []byte {
	message, fits := appendBookmark(message, r, &s.subs, s.via)
	if !fits {
		s.env.Explain(commandRefused, "", errBookmark)
	}
	return message
}

// bookmarksOnly reports whether bookmarks name b only.
func bookmarksOnly(subs *channelset.Set[*Subscription], b *Subscription) bool {
	if subs.Len() == 1 {
		return true
	}
	for other := range subs.All() {
		if other != b && other.at.Form&hub.Bookmarked != 0 {
			return false
		}
	}
	return true
}

// appendBookmark appends a line with the bookmark to a message, if the reply changes it. It returns false if the
// bookmark would exceed the limit of the kind.
func appendBookmark(message []byte, r *protocol.Reply, subs *channelset.Set[*Subscription], k *connkind.Kind) ([]byte, bool) {
	ended := r.Push != nil && r.Push.Unsubscribe != nil
	if !ended && r.Connect == nil && (r.Push == nil || r.Push.Pub == nil && r.Push.Subscribe == nil) {
		return message, true
	}
	before := append(message, '\n')
	line := appendBookmarkLine(before, subs)
	switch size := len(line) - len(before); {
	case size > k.Bookmarks:
		return message, false
	case size == len(bookmark.Prefix) && !ended:
		return message, true // there are no positions, so an empty bookmark would say nothing
	}
	return line, true
}

func appendBookmarkLine(dst []byte, subs *channelset.Set[*Subscription]) []byte {
	dst = append(dst, bookmark.Prefix...)
	for b := range subs.All() {
		if at := &b.at; at.Form&hub.Bookmarked != 0 && at.Epoch != "" {
			dst = bookmark.Add(dst, b.channel, at.Offset, at.Epoch)
		}
	}
	return dst
}

// bookmarkCapacity is in bytes, of a small bookmark with its frame.
const bookmarkCapacity = 256

// frameBookmark returns a frame in the arena with the bookmark behind a message, and hub.Open, the form of the message;
// nothing if the bookmark would exceed the limit of the kind.
func frameBookmark(a *sendqueue.Arena, subs *channelset.Set[*Subscription], k *connkind.Kind) ([]byte, hub.Form) {
	buf := append(a.Tail(bookmarkCapacity), make([]byte, k.Framer.Headroom())...) // this make does not allocate
	line := appendBookmarkLine(buf, subs)
	if len(line)-len(buf) > k.Bookmarks {
		return nil, 0
	}
	return a.Commit(k.Framer.Frame(line)), hub.Open
}
