package httpstream

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/bookmark"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/refuse"
)

type opening struct {
	encoding protocol.Encoding
	commands []byte                   // nil for one-way kinds
	connect  *protocol.ConnectRequest // nil for others
	repeated func(channel string) bool
}

func (h *Handler) receive(w http.ResponseWriter, r *http.Request, q *front.Request) (o opening, _ *refuse.Refusal) {
	if !slices.Contains(h.traits.methods(), r.Method) {
		return o, &refuse.Refusal{Status: http.StatusMethodNotAllowed, Text: "the method is none of " + h.traits.allowed()}
	}
	limit := h.cfg.MaxRequestBodySize // of a GET, too: net/http would wait for its body before it answers
	switch body, status := readBody(w, r, limit); status {
	case 0:
		return h.parse(q, body)
	case http.StatusRequestEntityTooLarge:
		return o, &refuse.Refusal{Status: status, Text: fmt.Sprintf("the body has more than %d bytes", limit), Key: "httpstream.Config.MaxRequestBodySize"}
	default:
		return o, &refuse.Refusal{Status: status, Text: "the body did not arrive"}
	}
}

func (h *Handler) parse(q *front.Request, body []byte) (o opening, _ *refuse.Refusal) {
	if h.traits.binary && q.Get("Content-Type") == protobufType {
		o.encoding = protocol.Protobuf
	}
	last := q.Get("Last-Event-ID")
	if q.Method == http.MethodGet {
		values, _ := url.ParseQuery(q.Query) // without the malformed parts
		body = []byte(values.Get("cf_connect"))
		last = cmp.Or(last, values.Get("last_event_id"))
	}
	switch empty := len(body) == 0 && q.Method == http.MethodGet; {
	case h.traits.mode != transport.OneWay:
		if empty {
			return o, refuse.BadRequest("the query has no cf_connect, which holds the first commands")
		}
		if o.commands = body; body == nil {
			o.commands = []byte{}
		}
		return o, nil
	case empty:
		body = []byte("{}")
	}
	o.connect = new(protocol.ConnectRequest)
	if err := codec.DecodeConnect(o.encoding, body, o.connect); err != nil {
		return o, refuse.BadRequest("the connect request is malformed: " + err.Error())
	}
	switch {
	case h.traits.polls:
		o.repeated = func(string) bool { return true }
	case h.traits.events():
		o.repeated = goOn(o.connect, last)
	}
	return o, nil
}

// goOn makes a connect request recover from the positions of the last event, because an EventSource repeats its first
// request. repeated tells which channels the event alone names.
func goOn(req *protocol.ConnectRequest, id string) (repeated func(channel string) bool) {
	if len(id) > maxEventID {
		return nil
	}
	var added []string
	for ch, at := range bookmark.Parse(id) {
		if req.Subs == nil {
			req.Subs = make(map[string]*protocol.SubscribeRequest)
		}
		sub := req.Subs[ch]
		if sub == nil {
			sub = new(protocol.SubscribeRequest)
			req.Subs[ch] = sub
			added = append(added, ch)
		}
		sub.Recover, sub.Offset, sub.Epoch = true, at.Offset, at.Epoch
	}
	return func(ch string) bool { return slices.Contains(added, ch) }
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, q *front.Request, no *refuse.Refusal) {
	if no.Status != http.StatusBadRequest { // then the body was read
		refuse.HangUp(w, r, grace)
	}
	h.refuser.Refuse(w, q, no)
}
