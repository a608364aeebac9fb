package httpstream

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
	"github.com/gyrohq/gyro/transport/bookmark"
)

type pollAnswer struct {
	status int
	pushes [][]byte // JSON
	// subs are the channels for the next request; nil: the client could not connect.
	subs       map[string]*position
	lost       []string
	refused    []string // channels of the request that the client does not get
	data       []byte
	disconnect *protocol.Disconnect // why the client could not connect

	news bool // the client does not know all of it
}

type position struct {
	recover      bool
	offset       uint64
	epoch, delta string
}

func failedAnswer(err error) *pollAnswer {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	return &pollAnswer{status: statusOf(d), disconnect: &d, news: true}
}

const retryAfter = "Retry-After: 1\r\n"

func (a *pollAnswer) retries() bool {
	return a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests
}

func (a *pollAnswer) addPublication(ch string, pub *protocol.Publication) {
	p := protocol.Push{Channel: ch, Pub: pub}
	if text, err := p.AppendJSON(nil); err == nil { // it was decoded from JSON
		a.pushes = append(a.pushes, text)
	}
}

// addMessages adds the messages after the connect push, and returns the last bookmark. The last message is left for the
// next request if its bookmark is still to come.
func (a *pollAnswer) addMessages(lines []byte) (last string) {
	open := false
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		switch id, isBookmark := strings.CutPrefix(string(line), bookmark.Prefix); {
		case isBookmark:
			last, open = id, false
		case len(line) == 0:
			open = true
		default:
			a.pushes = append(a.pushes, line)
		}
	}
	if open && len(a.pushes) > 0 {
		a.pushes = a.pushes[:len(a.pushes)-1]
	}
	return last
}

// setSubs sets the channels for the next request. A position that differs from the request's is news.
func (a *pollAnswer) setSubs(req *protocol.ConnectRequest, c *protocol.Connect, last string) {
	for ch, at := range bookmark.Parse(last) {
		p := &position{recover: true, offset: at.Offset, epoch: at.Epoch}
		a.subs[ch] = p
		asked := req.Subs[ch]
		if asked != nil {
			p.delta = asked.Delta
		}
		if asked != nil && asked.Recover && asked.Offset == at.Offset && asked.Epoch == at.Epoch {
			continue
		}
		a.news = true
		if sub := c.Subs[ch]; asked != nil && asked.Recover && sub != nil && !sub.Recovered {
			a.lost = append(a.lost, ch)
		}
	}
	for ch, asked := range req.Subs {
		if a.subs[ch] == nil && c.Subs[ch] != nil && !c.Subs[ch].Recoverable {
			a.subs[ch] = &position{delta: asked.Delta}
		}
	}
}

func statusOf(d protocol.Disconnect) int {
	switch d.Code {
	case protocol.DisconnectExpired.Code, protocol.DisconnectInvalidToken.Code:
		return http.StatusUnauthorized
	case protocol.DisconnectTooManyRequests.Code:
		return http.StatusTooManyRequests
	case protocol.DisconnectBadRequest.Code:
		return http.StatusBadRequest
	}
	if d.Terminal() {
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}

// appendJSON appends the answer as JSON, and a line break. Package encoding/json would change the bytes of payloads: it
// leaves out their white space.
func (a *pollAnswer) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if a.subs != nil {
		b = append(b, `"pushes":[`...)
		for i, p := range a.pushes {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, p...)
		}
		b = append(b, `],"subs":{`...)
		for i, ch := range slices.Sorted(maps.Keys(a.subs)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(jsonwire.AppendString(b, ch), ':')
			b = a.subs[ch].appendJSON(b)
		}
		b = append(b, `},`...)
	}
	b = appendNames(b, `"lost":[`, a.lost)
	b = appendNames(b, `"refused":[`, a.refused)
	if len(a.data) > 0 {
		b = append(append(append(b, `"data":`...), a.data...), ',')
	}
	if a.disconnect != nil {
		b, _ = a.disconnect.AppendJSON(append(b, `"disconnect":`...)) // it has no payload that could be wrong
		b = append(b, ',')
	}
	return append(jsonwire.EndObject(b), '\n')
}

func (p *position) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if p.recover {
		b = append(b, `"recover":true,`...)
	}
	if p.offset > 0 {
		b = append(strconv.AppendUint(append(b, `"offset":`...), p.offset, 10), ',')
	}
	if p.epoch != "" {
		b = append(jsonwire.AppendString(append(b, `"epoch":`...), p.epoch), ',')
	}
	if p.delta != "" {
		b = append(jsonwire.AppendString(append(b, `"delta":`...), p.delta), ',')
	}
	return jsonwire.EndObject(b)
}

func appendNames(b []byte, begin string, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	slices.Sort(names)
	b = append(b, begin...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonwire.AppendString(b, name)
	}
	return append(b, "],"...)
}
