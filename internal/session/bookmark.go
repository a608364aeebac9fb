package session

import (
	"github.com/gyrohq/gyro/internal/bookmarks"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/internal/reason"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// At implements bookmarks.Subscription.
func (b *Subscription) At() *position.Position { return &b.at }

// markable has the bookmarks of the connection name a recoverable channel.
func (b *Subscription) markable(req *protocol.SubscribeRequest) {
	if bookmark.Size(b.channel) > b.s.via.Bookmarks {
		b.s.env.Explain(reason.CommandRefused, b.channel, reason.Bookmark)
		return
	}
	b.at.Form |= hub.Marked
	if req.Recover { // the position until that of the stream is read
		b.at.Offset, b.at.Epoch = req.Offset, req.Epoch
	}
}

// marked appends the bookmark to the message of a reply.
func (s *Session) marked(message []byte, r *protocol.Reply) []byte {
	message, fits := bookmarks.Append(message, r, &s.subs, s.via)
	if !fits {
		s.env.Explain(reason.CommandRefused, "", reason.Bookmark)
	}
	return message
}
