package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// MaxName is the most bytes of a channel, of a key of a map, and of an idempotency key: they are in indices.
const MaxName = 1000

// CheckName returns protocol.ErrorBadRequest for a name that PostgreSQL cannot keep.
func CheckName(name string) error {
	if len(name) > MaxName || !isText(name) {
		return protocol.ErrorBadRequest
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// CheckPublication returns protocol.ErrorBadRequest for a publication that cannot be stored: strings that are not UTF-8
// or contain NUL, versions beyond 2^63-1, and, unless payloads are binary, payloads that are not JSON or have exponents
// beyond maxExponent.
func CheckPublication(pub *channel.Publication, binary bool) error {
	ok := pub.Version <= math.MaxInt64 && isText(pub.Key)
	for name, value := range pub.Tags {
		ok = ok && isText(name) && isText(value)
	}
	if pub.Info != nil {
		ok = ok && CheckInfo(pub.Info, binary) == nil
	}
	if !binary && !pub.Removed && !pub.Checked {
		ok = ok && json.Valid(pub.Data)
	}
	switch {
	case !ok:
		return protocol.ErrorBadRequest
	case !binary && grows(pub.Data):
		return errGrows
	}
	return nil
}

var errGrows = fmt.Errorf("%w: a number in the payload has an exponent beyond %d, and PostgreSQL would write out all of its digits",
	protocol.ErrorBadRequest, maxExponent)

// CheckInfo is CheckPublication for the info of a client.
func CheckInfo(info *channel.ClientInfo, binary bool) error {
	ok := isText(info.Client) && isText(info.User)
	for _, data := range [][]byte{info.ConnInfo, info.ChanInfo} {
		ok = ok && (binary || len(data) == 0 || json.Valid(data) && !grows(data))
	}
	if !ok {
		return protocol.ErrorBadRequest
	}
	return nil
}

// Arrays are publications by column. Columns that no publication needs are nil.
type Arrays struct {
	Binary bool

	n                    int
	text, conn, chann    []*string // payloads as JSON
	bytes, bconn, bchan  [][]byte  // or as they are
	tags, client, user   []*string
	time, version, score []*int64
	key                  []*string
	removed              []*bool
}

// Add adds a publication.
func (a *Arrays) Add(pub *channel.Publication) error {
	if a.Binary {
		a.bytes = append(a.bytes, pub.Data)
	} else if len(pub.Data) > 0 {
		put(&a.text, a.n, string(pub.Data))
	}
	if len(pub.Tags) > 0 {
		tags, err := json.Marshal(pub.Tags)
		if err != nil {
			return err
		}
		put(&a.tags, a.n, string(tags))
	}
	putIf(&a.time, a.n, pub.Time)
	putIf(&a.version, a.n, int64(pub.Version)) // checked
	putIf(&a.score, a.n, pub.Score)
	putIf(&a.key, a.n, pub.Key)
	putIf(&a.removed, a.n, pub.Removed)
	a.n++
	if pub.Info != nil {
		a.info(a.n-1, pub.Info)
	}
	return nil
}

// AddInfo adds a join or a leave.
func (a *Arrays) AddInfo(info *channel.ClientInfo, time int64) {
	if a.Binary {
		a.bytes = append(a.bytes, nil)
	}
	putIf(&a.time, a.n, time)
	a.n++
	a.info(a.n-1, info)
}

func (a *Arrays) info(at int, info *channel.ClientInfo) {
	put(&a.client, at, info.Client)
	put(&a.user, at, info.User)
	if a.Binary {
		putBytes(&a.bconn, at, info.ConnInfo)
		putBytes(&a.bchan, at, info.ChanInfo)
		return
	}
	if len(info.ConnInfo) > 0 {
		put(&a.conn, at, string(info.ConnInfo))
	}
	if len(info.ChanInfo) > 0 {
		put(&a.chann, at, string(info.ChanInfo))
	}
}

// Args appends data, tags, client and user, the infos, time and version.
func (a *Arrays) Args(args []any) []any {
	if a.Binary {
		return append(args, a.bytes, a.tags, a.client, a.user, a.bconn, a.bchan, a.time, a.version)
	}
	return append(args, a.text, a.tags, a.client, a.user, a.conn, a.chann, a.time, a.version)
}

// Keyed appends the key if there is no column for it yet, whether it was removed, and the score.
func (a *Arrays) Keyed(args []any, key bool) []any {
	if key {
		args = append(args, a.key)
	}
	return append(args, a.removed, a.score)
}

func put[T any](list *[]*T, at int, v T) {
	for len(*list) < at {
		*list = append(*list, nil)
	}
	*list = append(*list, &v)
}

func putIf[T comparable](list *[]*T, at int, v T) {
	var zero T
	if v != zero {
		put(list, at, v)
	}
}

func putBytes(list *[][]byte, at int, v []byte) {
	if len(v) == 0 {
		return
	}
	for len(*list) < at {
		*list = append(*list, nil)
	}
	*list = append(*list, v)
}

// Kinds of rows.
const (
	KindPublication = 0
	KindJoin        = 1
	KindLeave       = 2
	KindCleared     = 3
)

// Row is a row of a stream.
type Row struct {
	Channel string
	Epoch   string
	Kind    int16
	Pub     channel.Publication
	Delta   bool
	Prev    *channel.Publication
}

// Columns of a row, of table x, for Scan.
const Columns = `x.channel, x.channel_offset, x.epoch, x.kind, x.key, x.data, x.tags, x.client_id, x.user_id, x.conn_info, x.chan_info, x.removed,
	x.prev_data, x.prev_tags, x.use_delta, x.prev_offset, x.prev_time, x.time_ms, x.version, x.score, x.created_at`

// Scan reads a row. ahead are targets for columns before it.
func (r *Row) Scan(rows pgx.Rows, ahead ...any) error {
	var offset, ms, version, score, prevOffset, prevTime *int64
	var epoch, ch, key, client, user *string
	var kind *int16
	var tags, conn, info, prev, prevTags []byte
	var removed, delta *bool
	var at *time.Time
	*r = Row{}
	targets := append(ahead, &ch, &offset, &epoch, &kind, &key, &r.Pub.Data, &tags, &client, &user, &conn, &info, &removed,
		&prev, &prevTags, &delta, &prevOffset, &prevTime, &ms, &version, &score, &at)
	if err := rows.Scan(targets...); err != nil {
		return err
	}
	r.Channel, r.Epoch, r.Kind = value(ch), value(epoch), value(kind)
	r.Delta = value(delta)
	r.Pub.Offset, r.Pub.Version, r.Pub.Score = uint64(value(offset)), uint64(value(version)), value(score)
	r.Pub.Key, r.Pub.Removed = value(key), value(removed)
	r.Pub.Tags = ParseTags(tags)
	r.Pub.Time = value(ms)
	if r.Pub.Time == 0 && at != nil {
		r.Pub.Time = at.UnixMilli()
	}
	r.Pub.Info = NewInfo(client, user, conn, info)
	if prevOffset != nil {
		r.Prev = &channel.Publication{Offset: uint64(*prevOffset), Data: prev, Tags: ParseTags(prevTags), Time: value(prevTime), Key: r.Pub.Key}
	}
	return nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// NewInfo makes the info of a client, nil if it has no IDs.
func NewInfo(client, user *string, conn, chann []byte) *channel.ClientInfo {
	if client == nil && user == nil {
		return nil
	}
	return &channel.ClientInfo{Client: value(client), User: value(user), ConnInfo: conn, ChanInfo: chann}
}

// ParseTags reads tags. Values of an application that are not strings become their JSON.
func ParseTags(data []byte) map[string]string {
	if len(data) == 0 {
		return nil
	}
	var tags map[string]string
	if json.Unmarshal(data, &tags) == nil {
		return tags
	}
	var any map[string]json.RawMessage
	if json.Unmarshal(data, &any) != nil {
		return nil
	}
	tags = make(map[string]string, len(any))
	for name, raw := range any {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		tags[name] = text
	}
	return tags
}

// Event makes the event of a publication.
func (r *Row) Event() broker.PublicationEvent {
	pub := r.Pub
	return broker.PublicationEvent{Pub: &pub, Epoch: r.Epoch, Delta: r.Delta, Prev: r.Prev}
}

// Client returns the client of a join or a leave.
func (r *Row) Client() *channel.ClientInfo {
	if r.Pub.Info == nil {
		return &channel.ClientInfo{}
	}
	return r.Pub.Info
}
