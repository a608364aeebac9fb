package smuggling

// state is where in a request the next byte stands. States up to inHead are in its head.
type state uint8

const (
	begin state = iota
	inLine
	beforeField // at the beginning of the next line
	inName
	inValue
	beforeLength // before the digits of Content-Length
	inLength
	afterLength // after white space that follows the digits
	inHead      // after the CR of the empty line
	inBody
	beforeSize  // before the size of a chunk
	inSize      // after a digit of the size
	inExtension // after the digits
	inChunk
	afterChunk
	beforeTrailer // at the beginning of a line after the last chunk
	inTrailer     // in such a line
	inTrailers    // after the CR of the empty line
	beforeLF      // after a CR
	switching     // the client waits for another protocol
	over          // it has another protocol, or no request follows
)

// step takes one byte. False: it must not stand there.
func (f *Filter) step(c byte) bool {
	switch {
	case f.state == beforeLF:
		return c == '\n' && f.line()
	case c == '\n':
		return f.state == begin // net/http skips some empty lines
	case f.state == begin:
		if c != '\r' {
			f.state, f.version = inLine, uint64(c)
		}
		return true
	case f.state <= inHead:
		return f.stepHead(c)
	}
	return f.stepBody(c)
}

func (f *Filter) expect(next state) bool {
	f.state, f.next = beforeLF, next
	return true
}

func (f *Filter) line() bool {
	switch f.state = f.next; f.state {
	case inHead:
		switch {
		case f.head.chunked:
			f.state, f.left = beforeSize, 0
		case f.left > 0:
			f.state = inBody
		default:
			f.end()
		}
	case inTrailers:
		f.end()
	}
	return true
}

func (f *Filter) end() {
	f.state = begin
	if f.head.upgrade {
		f.state = switching
	}
	f.head, f.left = head{}, 0
}

func (f *Filter) stepHead(c byte) bool {
	cr, blank := c == '\r', c == ' ' || c == '\t'
	switch f.state {
	case inLine:
		if cr {
			return f.requested()
		}
		f.version = f.version<<8 | uint64(c)
	case beforeField:
		if cr {
			return f.expect(inHead)
		}
		f.state, f.named = inName, 0
		if first := c | 0x20; first != length[0] && first != encoding[0] && first != upgrade[0] {
			f.named = len(f.name) + 1
		}
		return !blank && f.spell(c)
	case inName:
		if c == ':' {
			return f.field()
		}
		return !cr && f.spell(c)
	case inValue:
		return !cr || f.expect(beforeField)
	default:
		return f.stepLength(c, cr, blank)
	}
	return true
}

func (f *Filter) requested() bool {
	if f.version == version20 { // net/http speaks HTTP/2 then, or refuses it
		f.state = over
		return true
	}
	f.head.current = f.version == version11
	return f.expect(beforeField)
}

func (f *Filter) spell(c byte) bool {
	if f.named < len(f.name) {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		f.name[f.named] = c
	}
	if f.named <= len(f.name) {
		f.named++
	}
	return true
}

// field begins the value of a field. False for a second field that tells the length, and for Transfer-Encoding in
// HTTP/1.0, which net/http ignores.
func (f *Filter) field() bool {
	f.state = inValue
	if f.named > len(f.name) {
		return true
	}
	h := &f.head
	switch string(f.name[:f.named]) {
	case length:
		if h.length || h.chunked {
			return false
		}
		h.length, f.state, f.left = true, beforeLength, 0
	case encoding:
		if h.length || h.chunked || !h.current {
			return false
		}
		h.chunked = true
	case upgrade:
		h.upgrade = true
	}
	return true
}

func (f *Filter) stepLength(c byte, cr, blank bool) bool {
	switch {
	case blank:
		if f.state == inLength {
			f.state = afterLength
		}
		return true
	case cr && f.state != beforeLength:
		return f.expect(beforeField)
	case c < '0' || c > '9' || f.state == afterLength:
		return false
	}
	f.state, f.left = inLength, 10*f.left+uint64(c-'0')
	return f.left < maxLength
}

func (f *Filter) stepBody(c byte) bool {
	cr, blank := c == '\r', c == ' ' || c == '\t'
	switch f.state {
	case beforeSize, inSize, inExtension:
		return f.stepSize(c, cr, blank)
	case afterChunk:
		return cr && f.expect(beforeSize)
	case beforeTrailer:
		if cr {
			return f.expect(inTrailers)
		}
		f.state = inTrailer
		return !blank
	case inTrailer:
		return !cr || f.expect(beforeTrailer)
	}
	return false
}

func (f *Filter) stepSize(c byte, cr, blank bool) bool {
	digit, hex := hexDigit(c)
	switch {
	case cr && f.state != beforeSize:
		if f.left == 0 {
			return f.expect(beforeTrailer)
		}
		return f.expect(inChunk)
	case f.state == inExtension:
		return !cr
	case hex:
		f.state, f.left = inSize, f.left<<4|digit
		return f.left < maxLength
	}
	ok := f.state == inSize && (blank || c == ';')
	f.state = inExtension
	return ok
}

func hexDigit(c byte) (uint64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0'), true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return uint64(c|0x20-'a') + 10, true
	}
	return 0, false
}
