package flightrecorder

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
)

// Read returns the latest records that a query selects, at most q.Limit, in their order. It sets all fields but Node.
func (r *Recorder) Read(q *inspect.Query) (log inspect.Log) {
	if r == nil {
		return log
	}
	s := selector{Query: q}
	if !q.Since.IsZero() {
		s.since = q.Since.UnixNano()
	}
	if q.Client != "" {
		var err error
		if s.client, err = uuid.Parse(q.Client); err != nil {
			return log // no client has that ID
		}
	}
	buf := make([]byte, chunkSize)
	for i, ring := range r.rings {
		s.node = i == len(r.rings)-1
		log = Merge(log, ring.read(&s, buf), q.Limit)
	}
	return log
}

func (r *Ring) read(s *selector, buf []byte) (log inspect.Log) {
	oldest, newest, from := r.span()
	if from != 0 {
		log.From = time.Unix(0, from)
	}
	var parts [][]inspect.Event // of chunks, the newest first
	for number, found := newest, 0; number >= oldest && found <= s.Limit; number-- {
		records, first, ok := r.copyOf(number, buf)
		if !ok {
			break
		}
		part := s.events(records)
		if found += len(part); len(part) > 0 {
			parts = append(parts, part)
		}
		if first < s.since {
			break
		}
	}
	slices.Reverse(parts)
	log.Events = slices.Concat(parts...)
	return latest(log, s.Limit)
}

// Merge returns the latest events of two answers to a query, at most limit.
func Merge(a, b inspect.Log, limit int) inspect.Log {
	a.More = a.More || b.More
	if b.From.After(a.From) {
		a.From = b.From
	}
	a.Events = append(a.Events, b.Events...)
	slices.SortStableFunc(a.Events, func(x, y inspect.Event) int { return x.Time.Compare(y.Time) })
	return latest(a, limit)
}

func latest(log inspect.Log, limit int) inspect.Log {
	if n := len(log.Events) - limit; n > 0 {
		log.Events, log.More = slices.Delete(log.Events, 0, n), true
	}
	return log
}

type selector struct {
	*inspect.Query
	client uuid.UUID
	since  int64
	node   bool // the ring belongs to the node
}

func (s *selector) nobody() bool { return s.User == "" && s.Client == "" }

func (s *selector) events(records []byte) (list []inspect.Event) {
	for len(records) > 0 {
		size := int(binary.LittleEndian.Uint16(records))
		if b := records[:size]; s.selects(b) {
			list = append(list, event(b))
		}
		records = records[size:]
	}
	return list
}

func (s *selector) selects(b []byte) bool {
	if s.since > int64(binary.LittleEndian.Uint64(b[11+texts:])) {
		return false
	}
	if s.node {
		if ch := text(b, 2); len(ch) > 0 {
			return (s.Nodes || s.nobody()) && string(ch) == cut(s.Channel) || s.nobody() && s.Channel == ""
		}
		return s.Nodes || s.nobody() && s.Channel == ""
	}
	return (s.Client == "" || s.client == uuid.UUID(b[19+texts:headSize])) &&
		(s.User == "" || string(text(b, 0)) == cut(s.User)) && (s.Channel == "" || string(text(b, 2)) == cut(s.Channel))
}

// text returns a text of a record, by its place in the list of Add.
func text(b []byte, place int) []byte {
	at := headSize
	for i := range place {
		at += int(b[3+i])
	}
	return b[at : at+int(b[3+place])]
}

func cut(text string) string { return text[:min(len(text), maxText)] }

func event(b []byte) inspect.Event {
	e := inspect.Event{
		Kind: inspect.Kind(b[2]), Code: binary.LittleEndian.Uint32(b[3+texts:]), Count: int(binary.LittleEndian.Uint32(b[7+texts:])),
		Time: time.Unix(0, int64(binary.LittleEndian.Uint64(b[11+texts:]))),
	}
	if id := uuid.UUID(b[19+texts : headSize]); id != uuid.Nil {
		e.Client = id.String()
	}
	for i, to := range [texts]*string{&e.User, &e.Addr, &e.Channel, &e.What, &e.Text, &e.Key} {
		*to = strings.ToValidUTF8(string(text(b, i)), "") // a text may have been cut within a character
	}
	if e.Kind == inspect.NewEpoch {
		e.Text, e.Key = "epoch "+e.Text+" became "+e.Key, ""
	}
	return e
}
