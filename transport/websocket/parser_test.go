package websocket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const fuzzLimit = 300

// parse feeds data to a parser in pieces that cut yields and returns the events
// as text, the last one being the violation, if any.
func parse(data []byte, compress bool, cut func(rest int) int) []string {
	p := parser{limit: fuzzLimit, compress: compress}
	defer p.release()
	var events []string
	for len(data) > 0 {
		n := cut(len(data))
		piece := bytes.Clone(data[:n])
		data = data[n:]
		for {
			e, rest, err := p.next(piece)
			if err != nil {
				return append(events, fmt.Sprintf("violation %d", err.Code))
			}
			if e.kind == eventNone {
				break
			}
			events = append(events, show(e))
			if e.kind == eventClose {
				return events
			}
			piece = rest
		}
	}
	return events
}

func show(e event) string {
	return fmt.Sprintf("%d text=%v compressed=%v code=%d %q", e.kind, e.text, e.compressed, e.code, e.payload)
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
			events = append(events, show(event{kind: eventPing, payload: plain}))
		case op == 10:
			events = append(events, show(event{kind: eventPong, payload: plain}))
		case op == 8 && n == 0:
			return append(events, show(event{kind: eventClose}))
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
			return append(events, show(event{kind: eventClose, code: code, payload: plain[2:]}))
		case fin:
			events = append(events, show(event{kind: eventMessage, text: isText, compressed: compressed, payload: msg}))
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
	for _, fr := range [][]frame{
		{text("hello"), {fin: true, op: opPing, payload: "p"}, binFr("\x00\xff"), closeFr(1000, "bye")},
		{{op: opText, payload: "hé"}, {fin: true, op: opPong}, {op: opContinuation}, {fin: true, op: opContinuation, payload: "llo€"}},
		{{op: opText, payload: "\xe2\x82"}, {fin: true, op: opContinuation, payload: "\xac"}},
		{{fin: true, rsv1: true, op: opText, payload: "\xf2\x48"}, text(strings.Repeat("x", 200)), text(strings.Repeat("x", 301))},
		{text("\xed\xa0\x80"), text("a")},
		{closeFr(1005, "")},
		{{op: opText, payload: strings.Repeat("é", 60)}, {fin: true, op: opContinuation, payload: strings.Repeat("é", 60)}},
	} {
		f.Add(masked(fr...), uint64(1), true)
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
		var list []frame
		for range 1 + rnd.IntN(8) {
			fr := frame{fin: rnd.IntN(3) > 0, op: []byte{0, 0, 1, 1, 2, 8, 9, 10}[rnd.IntN(8)], rsv1: rnd.IntN(8) == 0}
			fr.payload = parts[rnd.IntN(len(parts))] + parts[rnd.IntN(len(parts))]
			if fr.op >= opClose && rnd.IntN(5) > 0 {
				fr.fin, fr.rsv1, fr.payload = true, false, "ping"
			}
			list = append(list, fr)
		}
		data := masked(list...)
		want := reference(data, true)
		got := parse(data, true, func(rest int) int { return 1 + rnd.IntN(min(rest, 50)) })
		if !slices.Equal(got, want) {
			t.Fatalf("%v\n got %v\nwant %v", list, got, want)
		}
	}
}

func TestViolations(t *testing.T) {
	big := appendHeader(nil, bitFin|opText, 1<<16)
	for _, tt := range violations(big) {
		t.Run(tt.name, func(t *testing.T) {
			p := parser{limit: fuzzLimit}
			defer p.release()
			for data := tt.data; ; {
				e, rest, err := p.next(data)
				if err != nil {
					if err != tt.want {
						t.Errorf("got %v, want %v", err, tt.want)
					}
					return
				}
				if e.kind == eventNone {
					t.Fatal("accepted")
				}
				data = rest
			}
		})
	}
}

type violationCase struct {
	name string
	data []byte
	want *CloseError
}

func violations(big []byte) []violationCase {
	first := func(b0 byte) []byte { return []byte{b0, bitMask, 0, 0, 0, 0} }
	return []violationCase{
		{"RSV1 without extension", first(bitFin | bitRSV1 | opText), errReservedBits},
		{"RSV2", first(bitFin | 0x20 | opText), errReservedBits},
		{"RSV3", first(bitFin | 0x10 | opText), errReservedBits},
		{"data opcode 3", first(bitFin | 3), errOpcode},
		{"data opcode 7", first(bitFin | 7), errOpcode},
		{"control opcode 11", first(bitFin | 11), errOpcode},
		{"control opcode 15", first(bitFin | 15), errOpcode},
		{"unmasked", []byte{bitFin | opText, 1, 'a'}, errUnmasked},
		{"fragmented ping", first(opPing), errControlFrag},
		{"fragmented close", first(opClose), errControlFrag},
		{"long ping", masked(frame{fin: true, op: opPing, payload: strings.Repeat("x", 126)}), errControlSize},
		{"continuation first", masked(frame{fin: true, payload: "x"}), errContinuation},
		{"continuation after the end", masked(text("a"), frame{fin: true, payload: "x"}), errContinuation},
		{"text in text", masked(frame{op: opText, payload: "x"}, text("y")), errInterleaved},
		{"binary in empty text", masked(frame{op: opText}, binFr("y")), errInterleaved},
		{"16 bits for 125", []byte{bitFin | opText, bitMask | 126, 0, 125, 0, 0, 0, 0}, errLength},
		{"64 bits for 65535", []byte{bitFin | opText, bitMask | 127, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, errLength},
		{"64th bit", []byte{bitFin | opText, bitMask | 127, 128, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, errLengthRange},
		{"2^62 bytes", []byte{bitFin | opText, bitMask | 127, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, errTooBig},
		{"too big", append([]byte{big[0], big[1] | bitMask}, append(big[2:], 0, 0, 0, 0)...), errTooBig},
		{"one byte too big", masked(text(strings.Repeat("x", fuzzLimit+1))), errTooBig},
		{"fragments too big", masked(frame{op: opText, payload: strings.Repeat("x", fuzzLimit)}, frame{payload: "x"}), errTooBig},
		{"text not UTF-8", masked(text("a\xff")), errTextEncoding},
		{"text ends inside a character", masked(text("a\xe2\x82")), errTextEncoding},
		{"fragment not UTF-8", masked(frame{op: opText, payload: "\xc0"}), errTextEncoding},
		{"surrogate over fragments", masked(frame{op: opText, payload: "\xed"}, frame{payload: "\xa0"}), errTextEncoding},
		{"close of 1 byte", masked(frame{fin: true, op: opClose, payload: "\x03"}), errClosePayload},
		{"close 0", masked(closeFr(0, "")), errCloseCode},
		{"close 999", masked(closeFr(999, "")), errCloseCode},
		{"close 1004", masked(closeFr(1004, "")), errCloseCode},
		{"close 1005", masked(closeFr(1005, "")), errCloseCode},
		{"close 1006", masked(closeFr(1006, "")), errCloseCode},
		{"close 1015", masked(closeFr(1015, "")), errCloseCode},
		{"close 2999", masked(closeFr(2999, "")), errCloseCode},
		{"close 5000", masked(closeFr(5000, "")), errCloseCode},
		{"close reason not UTF-8", masked(closeFr(1000, "\xc3\x28")), errCloseReason},
	}
}

// TestParserWaits checks that a text is refused before it is complete, and that
// an announced length takes no memory.
func TestParserEarly(t *testing.T) {
	p := parser{limit: 1 << 30}
	defer p.release()
	h := append(appendHeader(nil, bitFin|opText, 1<<29), 0, 0, 0, 0)
	h[1] |= bitMask
	if _, _, err := p.next(append(h, 'a')); err != nil {
		t.Fatal(err)
	}
	if c := cap(p.message.B); c > 1024 {
		t.Errorf("one byte of a long message occupies %d", c)
	}
	if _, _, err := p.next([]byte("b\xff")); err != errTextEncoding {
		t.Errorf("got %v", err)
	}
}

func TestParserAllocations(t *testing.T) {
	data := masked(text("hello"), frame{fin: true, op: opPing, payload: "p"}, frame{op: opText, payload: "a"}, frame{fin: true, payload: "b"})
	buf := make([]byte, len(data))
	p := parser{limit: 100}
	checkAllocs(t, 0, func() {
		rest := buf[:copy(buf, data)]
		for {
			e, r, err := p.next(rest)
			if err != nil {
				t.Fatal(err)
			}
			if e.kind == eventNone {
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

func FuzzUnmask(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), uint32(0x01020304), 3)
	f.Fuzz(func(t *testing.T, b []byte, key uint32, at int) {
		at &= 3
		k := binary.LittleEndian.AppendUint32(nil, key)
		want := make([]byte, len(b))
		for i := range b {
			want[i] = b[i] ^ k[(i+at)%4]
		}
		got := bytes.Clone(b)
		unmask(got, key, at)
		if !bytes.Equal(got, want) {
			t.Fatalf("got % x, want % x", got, want)
		}
		unmask(got, key, at)
		if !bytes.Equal(got, b) {
			t.Fatal("unmasking twice is not the identity")
		}
	})
}

func TestTruncateReason(t *testing.T) {
	for _, s := range []string{"", "shutdown", strings.Repeat("x", 124), strings.Repeat("x", 122) + "é", strings.Repeat("€", 50), "a\xffb", strings.Repeat("\xff", 100)} {
		got := truncateReason(s)
		if len(got) > maxReason || !utf8.ValidString(got) || utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Errorf("truncateReason(%q) = %q", s, got)
		}
		if len(s) <= maxReason && utf8.ValidString(s) && got != s {
			t.Errorf("truncateReason(%q) = %q, changed without need", s, got)
		}
	}
}
