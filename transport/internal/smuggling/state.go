package smuggling

// state tells where in a request the next byte stands. States up to inHead are in its head.
type state uint8

const (
	begin         state = iota // before a request line
	inLine                     // in it
	beforeField                // at the beginning of the next line
	inName                     // in the name of a field
	inValue                    // in its value
	beforeLength               // before the digits of Content-Length
	inLength                   // after one of the digits
	afterLength                // after white space that follows the digits
	inHead                     // after the CR of the empty line
	inBody                     // in a body of known length
	beforeSize                 // before the size of a chunk
	inSize                     // after a digit of the size
	inExtension                // after the digits
	inChunk                    // in a chunk
	afterChunk                 // after a chunk
	beforeTrailer              // at the beginning of a line after the last chunk
	inTrailer                  // in such a line
	inTrailers                 // after the CR of the empty line
	beforeLF                   // after a CR
	switching                  // the client waits for another protocol
	over                       // it has another protocol, or no request follows
)

// step takes one byte. It reports false if the byte must not stand there.
func (g *Guard) step(c byte) bool {
	switch {
	case g.state == beforeLF:
		return c == '\n' && g.line()
	case c == '\n':
		return g.state == begin // net/http skips some empty lines
	case g.state == begin:
		if c != '\r' {
			g.state, g.version = inLine, uint64(c)
		}
		return true
	case g.state <= inHead:
		return g.stepHead(c)
	}
	return g.stepBody(c)
}

// expect waits for the LF after a CR.
func (g *Guard) expect(next state) bool {
	g.state, g.next = beforeLF, next
	return true
}

// line ends a line.
func (g *Guard) line() bool {
	switch g.state = g.next; g.state {
	case inHead:
		switch {
		case g.head.chunked:
			g.state, g.left = beforeSize, 0
		case g.left > 0:
			g.state = inBody
		default:
			g.end()
		}
	case inTrailers:
		g.end()
	}
	return true
}

// end ends a request.
func (g *Guard) end() {
	g.state = begin
	if g.head.upgrade {
		g.state = switching
	}
	g.head, g.left = head{}, 0
}

func (g *Guard) stepHead(c byte) bool {
	cr, blank := c == '\r', c == ' ' || c == '\t'
	switch g.state {
	case inLine:
		if cr {
			return g.requested()
		}
		g.version = g.version<<8 | uint64(c)
	case beforeField:
		if cr {
			return g.expect(inHead)
		}
		g.state, g.named = inName, 0
		if first := c | 0x20; first != length[0] && first != encoding[0] && first != upgrade[0] {
			g.named = len(g.name) + 1
		}
		return !blank && g.spell(c)
	case inName:
		if c == ':' {
			return g.field()
		}
		return !cr && g.spell(c)
	case inValue:
		return !cr || g.expect(beforeField)
	default:
		return g.stepLength(c, cr, blank)
	}
	return true
}

// requested ends a request line.
func (g *Guard) requested() bool {
	if g.version == version20 { // net/http speaks HTTP/2 then, or refuses it
		g.state = over
		return true
	}
	g.head.current = g.version == version11
	return g.expect(beforeField)
}

// spell notes a byte of a field's name.
func (g *Guard) spell(c byte) bool {
	if g.named < len(g.name) {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		g.name[g.named] = c
	}
	if g.named <= len(g.name) {
		g.named++
	}
	return true
}

// field begins the value of a field. It reports false for a second field that tells the length, and for
// Transfer-Encoding in HTTP/1.0, which net/http ignores.
func (g *Guard) field() bool {
	g.state = inValue
	if g.named > len(g.name) {
		return true
	}
	h := &g.head
	switch string(g.name[:g.named]) {
	case length:
		if h.length || h.chunked {
			return false
		}
		h.length, g.state, g.left = true, beforeLength, 0
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

func (g *Guard) stepLength(c byte, cr, blank bool) bool {
	switch {
	case blank:
		if g.state == inLength {
			g.state = afterLength
		}
		return true
	case cr && g.state != beforeLength:
		return g.expect(beforeField)
	case c < '0' || c > '9' || g.state == afterLength:
		return false
	}
	g.state, g.left = inLength, 10*g.left+uint64(c-'0')
	return g.left < maxLength
}

func (g *Guard) stepBody(c byte) bool {
	cr, blank := c == '\r', c == ' ' || c == '\t'
	switch g.state {
	case beforeSize, inSize, inExtension:
		return g.stepSize(c, cr, blank)
	case afterChunk:
		return cr && g.expect(beforeSize)
	case beforeTrailer:
		if cr {
			return g.expect(inTrailers)
		}
		g.state = inTrailer
		return !blank
	case inTrailer:
		return !cr || g.expect(beforeTrailer)
	}
	return false
}

func (g *Guard) stepSize(c byte, cr, blank bool) bool {
	digit, hex := hexDigit(c)
	switch {
	case cr && g.state != beforeSize:
		if g.left == 0 {
			return g.expect(beforeTrailer)
		}
		return g.expect(inChunk)
	case g.state == inExtension:
		return !cr
	case hex:
		g.state, g.left = inSize, g.left<<4|digit
		return g.left < maxLength
	}
	ok := g.state == inSize && (blank || c == ';')
	g.state = inExtension
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
