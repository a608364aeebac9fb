package front

import (
	"net/http"
	"slices"
	"time"

	"github.com/gyrohq/gyro/transport/front/internal/answer"
)

func (f *Refusal) answer() []byte {
	date := time.Now().UTC().AppendFormat(nil, http.TimeFormat)
	h := answer.Head{Status: f.Status, ContentType: answer.PlainText, Date: date, Length: len(f.Text) + 1}
	return append(h.Append(nil), f.Text+"\n"...)
}

type answerer struct {
	front  *Listener
	out    []byte
	fields []byte    // of the route
	at     time.Time // of the last answer; zero: there was none
	date   []byte    // the field Date of the second of at
}

// reply lets a request pass the gate, and returns the answer, whose body call appends to out. After status 0 it returns
// nil, and the request leaves the gate elsewhere.
func (a *answerer) reply(q *Request, r *route, call func(out []byte) (status int, text []byte)) (text []byte, closes bool) {
	status := http.StatusInternalServerError // for a panic
	defer func() {
		if status != 0 {
			r.Gate.Leave(q, status)
		}
	}()
	refused := r.Gate.Enter(q)
	if a.fields = r.advertise(q, a.fields[:0]); refused == nil && r.Fields != nil {
		a.fields = r.Fields(q, a.fields)
	}
	// There is room for the head before the body: it needs the size of the body.
	room := answer.MaxHead + max(len(r.ContentType), len(answer.PlainText)) + len(a.fields)
	out, contentType := slices.Grow(a.out[:0], room)[:room], answer.PlainText
	if refused != nil {
		status, out = refused.Status, append(append(out, refused.Text...), '\n')
	} else {
		status, out = call(out)
		switch {
		case status == 0:
			return nil, false
		case status == http.StatusOK:
			contentType = r.ContentType
		case answer.Bodiless(status):
			out = out[:room]
		default:
			out = append(append(out[:room], http.StatusText(status)...), '\n')
		}
	}
	a.out, closes = out, a.front.isClosing()
	q.Sent = len(out) - room
	return a.withHead(status, contentType, room, closes), closes
}

// withHead puts the head before the body, which begins at room in a.out.
func (a *answerer) withHead(status int, contentType string, room int, closes bool) []byte {
	now := time.Now()
	if a.at.IsZero() || now.Unix() != a.at.Unix() {
		a.date = now.UTC().AppendFormat(a.date[:0], http.TimeFormat)
	}
	a.at = now
	h := answer.Head{Status: status, ContentType: contentType, Date: a.date, Fields: a.fields, Length: len(a.out) - room, Close: closes}
	var text [2 * answer.MaxHead]byte
	t := h.Append(text[:0])
	begin := room - len(t)
	copy(a.out[begin:], t)
	return a.out[begin:]
}

func (a *answerer) trim() {
	if cap(a.out) > maxIdleBuffer {
		a.out = nil
	}
	if cap(a.fields) > maxIdleBuffer {
		a.fields = nil
	}
}
