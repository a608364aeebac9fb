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
	// HTTPStream clients send their first commands in a POST. The answer has replies and pushes: lines of JSON or, if
	// the Content-Type of the request is application/octet-stream, delimited Protobuf.
	HTTPStream Kind = iota
	// SSE clients send them in the query cf_connect of a GET, or in a POST. The answer has JSON in events of SSE.
	SSE
	// UniHTTPStream clients send a connect request in a POST. The answer has lines of JSON, which are bare pushes.
	UniHTTPStream
	// UniSSE clients send a connect request in the query cf_connect of a GET, which may be missing, or in a POST. The
	// answer has bare pushes in events of SSE. An event that moves a recoverable position has an id with all of them,
	// from which the client goes on when it comes back with it in the field Last-Event-ID, or in the query
	// last_event_id.
	UniSSE
	// UniPoll clients send a connect request as UniSSE clients do, with the positions of channels in its field subs. The
	// answer is one JSON object: all missed pushes, or the first ones that come, and the positions for the next request,
	// which any node can answer. These clients are in no presence, and make no joins and leaves.
	UniPoll
)

type traits struct {
	name   string
	mode   transport.Mode
	format framing.Format
	// binary: the request may choose Protobuf.
	binary bool
	// bookmarks is the most bytes of a bookmark; 0: there are none.
	bookmarks int
	// polls: each request has one answer, and no stream.
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

// events: the answer is a text/event-stream, which pages get by EventSource.
func (t *traits) events() bool { return t.format == framing.Events }

func (t *traits) methods() []string {
	if t.events() || t.polls {
		return []string{http.MethodGet, http.MethodPost}
	}
	return []string{http.MethodPost}
}

func (t *traits) allowed() string {
	switch {
	case t.events():
		return "GET, POST"
	case t.polls:
		return "GET, " + postMethods
	}
	return postMethods
}

func (t *traits) formatOf(e protocol.Encoding) framing.Format {
	if e == protocol.Protobuf {
		return framing.Delimited
	}
	return t.format
}
