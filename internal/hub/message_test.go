package hub_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// envelope is a framer that puts dashes around messages, and counts them.
type envelope struct {
	encoding protocol.Encoding
	dashes   int
	framed   atomic.Int32
}

func (f *envelope) Encoding() protocol.Encoding { return f.encoding }
func (f *envelope) Headroom() int               { return f.dashes }
func (f *envelope) Costly() bool                { return false }
func (f *envelope) Frame(buf []byte) []byte {
	f.framed.Add(1)
	for i := range buf[:f.dashes] {
		buf[i] = '-'
	}
	return append(buf, '-')
}

// open decodes the one message in a frame.
func (f *envelope) open(t interface{ Fatalf(string, ...any) }, frame []byte, form hub.Form) *protocol.Push {
	head := strings.Repeat("-", f.dashes)
	if !bytes.HasPrefix(frame, []byte(head)) || !bytes.HasSuffix(frame, []byte("-")) {
		t.Fatalf("envelope of %q", frame)
	}
	var (
		rest []byte
		err  error
		r    = protocol.Reply{}
		c    = codec.ForClient(f.encoding)
	)
	if frame = frame[f.dashes : len(frame)-1]; form&hub.Bare != 0 {
		r.Push = new(protocol.Push)
		rest, err = c.DecodePush(frame, r.Push)
	} else {
		rest, err = c.DecodeReply(frame, &r)
	}
	if err != nil || len(rest) > 0 || r.Push == nil {
		t.Fatalf("frame %q: %v, %+v", frame, err, r)
	}
	return r.Push
}

var (
	text = rapid.StringN(0, 20, 60)
	// payload is JSON or anything, empty, small or larger.
	payload = rapid.OneOf(
		rapid.Map(rapid.SliceOfN(text, 0, 40), func(v []string) []byte { p, _ := json.Marshal(v); return p }),
		rapid.Map(rapid.SliceOfN(text, 1, 3), func(v []string) []byte { p, _ := json.MarshalIndent(v, "\r", " "); return p }),
		rapid.Map(text, func(s string) []byte { p, _ := json.Marshal(strings.Repeat(s, 100)); return p }),
		rapid.Map(rapid.StringOfN(rapid.RuneFrom([]rune("абв")), 40, 80, -1), func(s string) []byte { return []byte(`"` + s + `"`) }),
		rapid.SliceOfN(rapid.Byte(), 0, 60),
		rapid.Just([]byte(nil)),
	)
	clientInfo = rapid.Custom(func(t *rapid.T) *channel.ClientInfo {
		if rapid.Bool().Draw(t, "no info") {
			return nil
		}
		return &channel.ClientInfo{User: text.Draw(t, "user"), Client: text.Draw(t, "client"),
			ConnInfo: payload.Draw(t, "conn info"), ChanInfo: payload.Draw(t, "chan info")}
	})
	publication = rapid.Custom(func(t *rapid.T) *channel.Publication {
		return &channel.Publication{
			Data:    payload.Draw(t, "data"),
			Offset:  rapid.Uint64Range(0, 3).Draw(t, "offset"),
			Tags:    rapid.MapOfN(text, text, 0, 3).Draw(t, "tags"),
			Info:    clientInfo.Draw(t, "info"),
			Channel: text.Draw(t, "channel"),
			Key:     text.Draw(t, "key"),
			Removed: rapid.IntRange(0, 9).Draw(t, "removed") == 0,
			Score:   rapid.Int64().Draw(t, "score"),
			Version: rapid.Uint64().Draw(t, "version"),
		}
	})
)

// refused tells whether JSON cannot carry the payloads.
func refused(e protocol.Encoding, payloads ...[]byte) bool {
	for _, p := range payloads {
		if e == protocol.JSON && len(p) > 0 && !codec.ValidJSON(p) {
			return true
		}
	}
	return false
}

// payloads of a client's info.
func payloads(i *channel.ClientInfo) [][]byte {
	if i == nil {
		return nil
	}
	return [][]byte{i.ConnInfo, i.ChanInfo}
}

// A payload that was checked when it was published is not checked again; others are, in
// messages and in results.
func TestPayloadsAreCheckedOnce(t *testing.T) {
	f := &envelope{encoding: protocol.JSON}
	for _, checked := range []bool{false, true} {
		pub := &channel.Publication{Data: []byte("no JSON"), Checked: checked}
		for _, form := range []hub.Form{0, hub.Bare, hub.Escaped, hub.Patched} {
			if frame, err := (&hub.Message{Channel: "ch", Pub: pub}).Frame(f, form); (err == nil) != checked || checked && !bytes.Contains(frame, pub.Data) {
				t.Errorf("checked %v, form %d: %q, %v", checked, form, frame, err)
			}
			var r hub.Results
			if out := r.Make([]*channel.Publication{pub}, form, protocol.JSON); (r.LeftOut == 0) != checked || len(out)+r.LeftOut != 1 || checked && !out[0].DataChecked {
				t.Errorf("checked %v, form %d: %+v, %d left out", checked, form, out, r.LeftOut)
			}
		}
	}
	var r hub.Results
	lines := &channel.Publication{Data: []byte("{\n}")}
	if out := r.Make([]*channel.Publication{lines, {}}, 0, protocol.JSON); len(out) != 2 || out[0].DataChecked {
		t.Errorf("line breaks: %+v", out)
	}
}

// JSON connections do not get publications that are not JSON, and no patch builds on such a publication.
func TestLeftOut(t *testing.T) {
	text := func(n int) []byte { return []byte(`"` + strings.Repeat("long text ", 20) + strconv.Itoa(n) + `"`) }
	bad := bytes.Replace(text(2), []byte(`"`), nil, 1)
	pubs := []*channel.Publication{
		{Offset: 1, Data: text(1)}, {Offset: 2, Data: bad}, {Offset: 3, Data: text(3)}, {Offset: 4, Data: text(4)},
		{Offset: 5, Data: text(5), Info: &channel.ClientInfo{ConnInfo: []byte("\xff")}},
	}
	var r hub.Results
	if out := r.Make(pubs, hub.Escaped, protocol.JSON); len(out) != 3 || r.LeftOut != 2 || out[1].Offset != 3 || out[1].Delta || !out[2].Delta {
		t.Errorf("%d left out, %+v", r.LeftOut, out)
	}
	if out := r.Make(pubs, hub.Escaped, protocol.Protobuf); len(out) != 5 || r.LeftOut != 0 || !out[2].Delta {
		t.Errorf("Protobuf: %d left out, %+v", r.LeftOut, out)
	}
	f := &envelope{encoding: protocol.JSON}
	frame, err := (&hub.Message{Channel: "ch", Pub: pubs[2], Prev: pubs[1]}).Frame(f, hub.Patched)
	if err != nil || bytes.Contains(frame, []byte(`"delta"`)) {
		t.Errorf("a patch of what the client did not get: %s, %v", frame, err)
	}
	if frame, err = (&hub.Message{Channel: "ch", Pub: pubs[3], Prev: pubs[2]}).Frame(f, hub.Patched); err != nil || !bytes.Contains(frame, []byte(`"delta"`)) {
		t.Errorf("no patch: %s, %v", frame, err)
	}
}

// Every message reads, in every form and encoding, as what was put in: patches
// applied, strings decoded, line breaks between tokens aside.
func TestMessageForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &hub.Message{
			Channel: text.Draw(t, "channel of the message"),
			Kind:    rapid.SampledFrom([]hub.Kind{hub.KindPublication, hub.KindPublication, hub.KindJoin, hub.KindLeave}).Draw(t, "kind"),
			Epoch:   text.Draw(t, "epoch"),
			ID:      rapid.Int64Range(-1, 5).Draw(t, "id"),
		}
		var content [][]byte
		if m.Kind == hub.KindPublication {
			m.Pub = publication.Draw(t, "publication")
			m.Pub.Checked = codec.ValidJSON(m.Pub.Data) && !bytes.ContainsAny(m.Pub.Data, "\r\n") && rapid.Bool().Draw(t, "checked")
			content = append(payloads(m.Pub.Info), m.Pub.Data)
			switch rapid.IntRange(0, 2).Draw(t, "previous") {
			case 1:
				m.Prev = publication.Draw(t, "another one")
			case 2: // an alike one, so that a patch is worth it
				m.Prev = &channel.Publication{Data: bytes.Replace(m.Pub.Data, []byte("б"), []byte("в"), 1)}
			}
		} else {
			m.Info = clientInfo.Draw(t, "info")
			content = payloads(m.Info)
		}
		framers := []*envelope{{encoding: protocol.JSON}, {encoding: protocol.Protobuf, dashes: 3}, {encoding: protocol.JSON, dashes: 100}}
		for _, f := range framers {
			for form := range hub.Bare << 1 {
				frame, err := m.Frame(f, form)
				again, _ := m.Frame(f, form)
				if len(frame) != len(again) || len(frame) > 0 && &frame[0] != &again[0] {
					t.Fatal("the frame is not shared")
				}
				if refused(f.encoding, content...) {
					if !errors.Is(err, codec.ErrNotJSON) || frame != nil {
						t.Fatalf("form %d: %q, %v instead of ErrNotJSON", form, frame, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("form %d: %v", form, err)
				}
				compare(t, m, form, f.encoding, f.open(t, frame, form))
			}
		}
	})
}

// compare holds a push against the message that it was made of.
func compare(t *rapid.T, m *hub.Message, form hub.Form, e protocol.Encoding, got *protocol.Push) {
	want := &protocol.Push{Channel: m.Channel}
	if form&hub.Compact != 0 && m.ID > 0 {
		want = &protocol.Push{ID: m.ID}
	}
	switch m.Kind {
	case hub.KindJoin:
		want.Join = &protocol.Join{Info: m.Info}
	case hub.KindLeave:
		want.Leave = &protocol.Leave{Info: m.Info}
	default:
		p := m.Pub
		want.Pub = &protocol.Publication{
			Data: p.Data, Offset: p.Offset, Tags: p.Tags, Info: p.Info, Channel: p.Channel,
			Key: p.Key, Removed: p.Removed, Score: p.Score, Version: p.Version,
		}
		if len(p.Tags) == 0 {
			want.Pub.Tags = nil
		}
		if p.Offset == 1 {
			want.Pub.Epoch = m.Epoch
		}
		if p.Removed && len(p.Data) == 0 && form&(hub.Escaped|hub.Patched) != 0 && e == protocol.JSON {
			want.Pub.Data = []byte("null") // which centrifuge-js parses
		}
		if got.Pub != nil {
			unpack(t, m, form, e, got.Pub)
		}
	}
	// Blanks at the ends are none of the payload's.
	same := cmp.Comparer(func(a, b []byte) bool {
		if e == protocol.JSON {
			a, b = bytes.TrimSpace(noLines(a)), bytes.TrimSpace(noLines(b))
		}
		return bytes.Equal(a, b)
	})
	if d := cmp.Diff(want, got, same); d != "" {
		t.Fatalf("form %d, %v (-want +got):\n%s", form, e, d)
	}
}

func noLines(p []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\n"), nil), []byte("\r"), nil)
}

// unpack replaces the data of a publication by what a client makes of it.
func unpack(t *rapid.T, m *hub.Message, form hub.Form, e protocol.Encoding, p *protocol.Publication) {
	if form&(hub.Escaped|hub.Patched) != 0 && e == protocol.JSON && len(p.Data) > 0 {
		var s string
		if err := json.Unmarshal(p.Data, &s); err != nil {
			t.Fatalf("form %d: data is no string: %.100q", form, p.Data)
		}
		p.Data = []byte(s)
	}
	if !p.Delta {
		return
	}
	p.Delta = false
	if form&hub.Patched == 0 || m.Prev == nil || m.Prev.Removed || p.Removed || len(p.Data) >= len(m.Pub.Data) {
		t.Fatalf("form %d: a patch of %d bytes for %d", form, len(p.Data), len(m.Pub.Data))
	}
	full, err := fossiltest.Apply(m.Prev.Data, p.Data)
	if err != nil {
		t.Fatalf("form %d: %v", form, err)
	}
	p.Data = full
}

// Each variant is encoded once, whoever comes first, and all get the same bytes.
func TestVariantsAreShared(t *testing.T) {
	data := []byte(`{"text":"` + strings.Repeat("hello, world ", 10) + `"}`)
	m := &hub.Message{
		Channel: "ch", Pub: &channel.Publication{Data: data, Offset: 2},
		Prev: &channel.Publication{Data: append([]byte(" "), data...), Offset: 1}, ID: 7,
	}
	framers := [3]*envelope{{encoding: protocol.JSON}, {encoding: protocol.Protobuf}, {encoding: protocol.JSON}}
	forms := []hub.Form{0, hub.Compact, hub.Escaped, hub.Escaped | hub.Patched}
	var (
		wg   sync.WaitGroup
		seen [8][3][4]*byte
	)
	for g := range seen {
		wg.Go(func() {
			for i := range 12 {
				f, form := (i+g)%3, (i+g)%4
				frame, err := m.Frame(framers[f], forms[form])
				if err != nil {
					t.Error(err)
					return
				}
				seen[g][f][form] = &frame[0]
			}
		})
	}
	wg.Wait()
	for g := range seen {
		if seen[g] != seen[0] {
			t.Error("frames are not shared")
		}
	}
	for _, f := range framers {
		if n := f.framed.Load(); n != int32(len(forms)) {
			t.Errorf("%d messages were framed for %d forms", n, len(forms))
		}
	}
	distinct := make(map[*byte]bool)
	for _, row := range seen[0] {
		for _, p := range row {
			distinct[p] = true
		}
	}
	if len(distinct) != 12 {
		t.Errorf("%d frames for 12 variants", len(distinct))
	}
}

// Whoever comes later finds the frame without taking memory.
func TestFrameAllocBudget(t *testing.T) {
	m := &hub.Message{Channel: "ch", Pub: &channel.Publication{Data: []byte(`{}`)}}
	f := &envelope{encoding: protocol.JSON}
	get := func() {
		if _, err := m.Frame(f, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(10, get); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
