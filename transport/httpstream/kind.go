package httpstream

import (
	"net/http"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
)

// Kind of stream.
type Kind uint8

// The kinds.
const (
	// HTTPStream clients send the commands that open the connection in a POST. The answer has
	// replies and pushes, as lines of JSON or, if the Content-Type of the request is
	// application/octet-stream, as delimited Protobuf.
	HTTPStream Kind = iota
	// SSE clients send these commands in the query cf_connect of a GET, or in a POST. The
	// answer has JSON in events of SSE.
	SSE
	// UniHTTPStream clients send a connect request in a POST, and the answer has lines of JSON,
	// which are bare pushes.
	UniHTTPStream
	// UniSSE clients send a connect request in the query cf_connect of a GET, which may be
	// missing, or in a POST. The answer has bare pushes in events of SSE. An event that moves
	// the position of a recoverable channel has an id with the positions of all of them, from
	// which the client goes on when it comes back with it in the field Last-Event-ID, or else in
	// the query last_event_id.
	UniSSE
	// UniPoll clients send a connect request in the query cf_connect of a GET, which may be missing, or in a POST, with
	// the positions of channels in its field subs. The answer is one JSON object. It has all missed pushes, or waits
	// for the first ones, and it has the positions for the next request, which any node can answer. Their clients are
	// in no channel's presence, and channels get no joins and leaves of them.
	UniPoll
)

// traits of a kind.
type traits struct {
	name   string
	mode   transport.Mode
	format framing.Format
	// binary: the request may choose Protobuf.
	binary bool
	// bookmarks is the most bytes of a bookmark; 0: there are none.
	bookmarks int
	// polls: each request has one answer, which is no stream.
	polls bool
}

// maxEventID is the most bytes of an event's id. Proxies take fields of this size.
const maxEventID = 4096

var kinds = [...]traits{
	HTTPStream:    {"http_stream", transport.Emulated, framing.Lines, true, 0, false},
	SSE:           {"sse", transport.Emulated, framing.Events, false, 0, false},
	UniHTTPStream: {"uni_http_stream", transport.OneWay, framing.Lines, false, 0, false},
	UniSSE:        {"uni_sse", transport.OneWay, framing.Events, false, maxEventID, false},
	UniPoll:       {"uni_poll", transport.OneWay, framing.Lines, false, maxPollBookmark, true},
}

// events reports whether the answer is a text/event-stream, which pages get by EventSource.
func (t *traits) events() bool { return t.format == framing.Events }

// methods are the methods of requests that open a stream.
func (t *traits) methods() []string {
	if t.events() || t.polls {
		return []string{http.MethodGet, http.MethodPost}
	}
	return []string{http.MethodPost}
}

// allowed lists all methods.
func (t *traits) allowed() string {
	switch {
	case t.events():
		return "GET, POST"
	case t.polls:
		return "GET, " + postMethods
	}
	return postMethods
}

// formatOf returns the format of the answer for messages in an encoding.
func (t *traits) formatOf(e protocol.Encoding) framing.Format {
	if e == protocol.Protobuf {
		return framing.Delimited
	}
	return t.format
}
