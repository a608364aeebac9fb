package rfc6455

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
)

const fuzzLimit = 300

// parse feeds data to a parser in pieces that cut yields and returns the events
// as text, the last one being the violation, if any.
func parse(data []byte, compress bool, cut func(rest int) int) []string {
	p := Parser{Limit: fuzzLimit, Compress: compress}
	defer p.Release()
	var events []string
	for len(data) > 0 {
		n := cut(len(data))
		piece := bytes.Clone(data[:n])
		data = data[n:]
		for {
			e, rest, err := p.Next(piece)
			if err != nil {
				return append(events, fmt.Sprintf("violation %d", err.Code))
			}
			if e.Kind == EventNone {
				break
			}
			events = append(events, show(e))
			if e.Kind == EventClose {
				return events
			}
			piece = rest
		}
	}
	return events
}

func show(e Event) string {
	return fmt.Sprintf("%d text=%v compressed=%v code=%d %q", e.Kind, e.Text, e.Compressed, e.Code, e.Payload)
}

// reference decodes data in the plainest way, from the text of RFC 6455.
func reference(data []byte, compress bool) (events []string) {
	bad := func(code int) []string { return append(events, fmt.Sprintf("violation %d", code)) }
	var msg []byte
	inside, isText, compressed := false, false, false
	for len(data) >= 2 {
		fin, rsv1, rsv23 := data[0]>>7 == 1, data[0]>>6&1 == 1, data[0]>>4&3
		op, mask, n := data[0]&15, data[1]>>7 == 1, uint64(data[1]&127)
		control := op >= 8
		if rsv23 != 0 || !slices.Contains([]byte{0, 1, 2, 8, 9, 10}, op) || !mask ||
			rsv1 && (!compress || op != 1 && op != 2) ||
			control && (!fin || n > 125) || op == 0 && !inside || (op == 1 || op == 2) && inside {
			return bad(1002)
		}
		size := map[uint64]int{126: 2, 127: 8}[n]
		if len(data) < 2+size+4 {
			return events
		}
		if size > 0 {
			ext := n
			n = 0
			for _, b := range data[2 : 2+size] {
				n = n<<8 | uint64(b)
			}
			if n < 126 || ext == 127 && n < 65536 || n>>63 == 1 {
				return bad(1002)
			}
		}
		if !control && n+uint64(len(msg)) > fuzzLimit {
			return bad(1009)
		}
		if op == 1 || op == 2 {
			inside, isText, compressed = true, op == 1, rsv1
		}
		key, payload := data[2+size:2+size+4], data[2+size+4:]
		whole := uint64(len(payload)) >= n
		if whole {
			payload, data = payload[:n], payload[n:]
		}
		plain := []byte{}
		for i, b := range payload {
			plain = append(plain, b^key[i%4])
		}
		if !control {
			msg = append(msg, plain...)
			state := utf8State(msg)
			if isText && !compressed && (state < 0 || whole && fin && state > 0) {
				return bad(1007)
			}
		}
		switch {
		case !whole:
			return events
		case op == 9:
			events = append(events, show(Event{Kind: EventPing, Payload: plain}))
		case op == 10:
			events = append(events, show(Event{Kind: EventPong, Payload: plain}))
		case op == 8 && n == 0:
			return append(events, show(Event{Kind: EventClose}))
		case op == 8:
			if n == 1 {
				return bad(1002)
			}
			code := binary.BigEndian.Uint16(plain)
			if code < 1000 || code >= 5000 || code > 1014 && code < 3000 || code >= 1004 && code <= 1006 {
				return bad(1002)
			}
			if utf8State(plain[2:]) != 0 {
				return bad(1007)
			}
			return append(events, show(Event{Kind: EventClose, Code: code, Payload: plain[2:]}))
		case fin:
			events = append(events, show(Event{Kind: EventMessage, Text: isText, Compressed: compressed, Payload: msg}))
			inside, msg = false, nil
		}
	}
	return events
}

// utf8State walks the table of RFC 3629 section 4. It returns the number of bytes
// that the last character lacks, or -1 if b begins no UTF-8.
func utf8State(b []byte) int {
	lack, lo, hi := 0, byte(0x80), byte(0xBF)
	for _, c := range b {
		if lack > 0 {
			if c < lo || c > hi {
				return -1
			}
			lack, lo, hi = lack-1, 0x80, 0xBF
			continue
		}
		switch {
		case c < 0x80:
		case c >= 0xC2 && c <= 0xDF:
			lack = 1
		case c >= 0xE0 && c <= 0xEF:
			lack = 2
			switch c {
			case 0xE0:
				lo = 0xA0
			case 0xED:
				hi = 0x9F
			}
		case c >= 0xF0 && c <= 0xF4:
			lack = 3
			switch c {
			case 0xF0:
				lo = 0x90
			case 0xF4:
				hi = 0x8F
			}
		default:
			return -1
		}
	}
	return lack
}

func FuzzParser(f *testing.F) {
	for _, fr := range [][]frametest.Frame{
		{frametest.Text("hello"), {Fin: true, Op: OpPing, Payload: "p"}, frametest.Binary("\x00\xff"), frametest.Close(1000, "bye")},
		{{Op: OpText, Payload: "hé"}, {Fin: true, Op: OpPong}, {Op: OpContinuation}, {Fin: true, Op: OpContinuation, Payload: "llo€"}},
		{{Op: OpText, Payload: "\xe2\x82"}, {Fin: true, Op: OpContinuation, Payload: "\xac"}},
		{{Fin: true, RSV1: true, Op: OpText, Payload: "\xf2\x48"}, frametest.Text(strings.Repeat("x", 200)), frametest.Text(strings.Repeat("x", 301))},
		{frametest.Text("\xed\xa0\x80"), frametest.Text("a")},
		{frametest.Close(1005, "")},
		{{Op: OpText, Payload: strings.Repeat("é", 60)}, {Fin: true, Op: OpContinuation, Payload: strings.Repeat("é", 60)}},
	} {
		f.Add(frametest.Masked(fr...), uint64(1), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, compress bool) {
		want := reference(data, compress)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for name, cut := range map[string]func(int) int{
			"whole":  func(rest int) int { return rest },
			"bytes":  func(int) int { return 1 },
			"random": func(rest int) int { return 1 + rnd.IntN(min(rest, 20)) },
		} {
			if got := parse(data, compress, cut); !slices.Equal(got, want) {
				t.Fatalf("%s: % x\n got %v\nwant %v", name, data, got, want)
			}
		}
	})
}

// TestParserSplits compares long random conversations, which a fuzzer of raw
// bytes seldom finds, cut at random places.
func TestParserSplits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	parts := []string{"", "a", "é", "€", "𝄞", "\xe2", "\xff", strings.Repeat("long ", 20), strings.Repeat("x", 126)}
	for range 3000 {
		var list []frametest.Frame
		for range 1 + rnd.IntN(8) {
			fr := frametest.Frame{Fin: rnd.IntN(3) > 0, Op: []byte{0, 0, 1, 1, 2, 8, 9, 10}[rnd.IntN(8)], RSV1: rnd.IntN(8) == 0}
			fr.Payload = parts[rnd.IntN(len(parts))] + parts[rnd.IntN(len(parts))]
			if fr.Op >= OpClose && rnd.IntN(5) > 0 {
				fr.Fin, fr.RSV1, fr.Payload = true, false, "ping"
			}
			list = append(list, fr)
		}
		data := frametest.Masked(list...)
		want := reference(data, true)
		got := parse(data, true, func(rest int) int { return 1 + rnd.IntN(min(rest, 50)) })
		if !slices.Equal(got, want) {
			t.Fatalf("%v\n got %v\nwant %v", list, got, want)
		}
	}
}

func TestViolations(t *testing.T) {
	for _, tt := range frametest.Violations(fuzzLimit) {
		t.Run(tt.Name, func(t *testing.T) {
			p := Parser{Limit: fuzzLimit}
			defer p.Release()
			for data := tt.Data; ; {
				e, rest, err := p.Next(data)
				if err != nil {
					if *err != (CloseError{Code: tt.Code, Reason: tt.Reason}) {
						t.Errorf("got %v, want %d %s", err, tt.Code, tt.Reason)
					}
					return
				}
				if e.Kind == EventNone {
					t.Fatal("accepted")
				}
				data = rest
			}
		})
	}
}

// TestParserEarly checks that a text is refused before it is complete, and that
// an announced length takes no memory.
func TestParserEarly(t *testing.T) {
	p := Parser{Limit: 1 << 30}
	defer p.Release()
	h := append(appendHeader(nil, bitFin|OpText, 1<<29), 0, 0, 0, 0)
	h[1] |= bitMask
	if _, _, err := p.Next(append(h, 'a')); err != nil {
		t.Fatal(err)
	}
	if c := cap(p.message.B); c > 1024 {
		t.Errorf("one byte of a long message occupies %d", c)
	}
	if _, _, err := p.Next([]byte("b\xff")); err != errTextEncoding {
		t.Errorf("got %v", err)
	}
}

func TestParserAllocations(t *testing.T) {
	data := frametest.Masked(frametest.Text("hello"), frametest.Frame{Fin: true, Op: OpPing, Payload: "p"}, frametest.Frame{Op: OpText, Payload: "a"}, frametest.Frame{Fin: true, Payload: "b"})
	buf := make([]byte, len(data))
	p := Parser{Limit: 100}
	checkAllocs(t, 0, func() {
		rest := buf[:copy(buf, data)]
		for {
			e, r, err := p.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == EventNone {
				return
			}
			rest = r
		}
	})
}

func checkAllocs(t *testing.T, most float64, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("allocations are not counted with the race detector")
	}
	if n := testing.AllocsPerRun(1000, f); n > most {
		t.Errorf("%v allocations, want at most %v", n, most)
	}
}

func BenchmarkParser(b *testing.B) {
	for _, size := range []int{30, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			msg := frametest.Masked(frametest.Text(testText(size)))
			buf := make([]byte, len(msg))
			p := Parser{Limit: 1 << 16}
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if e, _, err := p.Next(buf[:copy(buf, msg)]); e.Kind != EventMessage {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestManyFragments: a message is copied a few times in all, however many fragments it comes in. If each fragment copied all that came
// before, a client could occupy a processor for minutes by some MB.
func TestManyFragments(t *testing.T) {
	const size, part, budget = 1 << 20, 64, 64
	frames := make([][]byte, 0, size/part)
	for n := part; n <= size; n += part {
		f := frametest.Frame{Fin: n == size, Payload: strings.Repeat("x", part)}
		if n == part {
			f.Op = OpText
		}
		frames = append(frames, frametest.Masked(f))
	}
	allocs := testing.AllocsPerRun(1, func() {
		p := Parser{Limit: size}
		defer p.Release()
		got := 0
		for _, f := range frames {
			e, _, err := p.Next(slices.Clone(f))
			if err != nil {
				t.Fatal(err)
			}
			got += len(e.Payload)
		}
		if got != size {
			t.Fatalf("a message of %d bytes, want %d", got, size)
		}
	})
	if allocs -= float64(len(frames)); allocs > budget { // without the clones
		t.Errorf("%v allocations for %d fragments, budget %d", allocs, len(frames), budget)
	}
}
