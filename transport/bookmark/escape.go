package bookmark

import "strings"

const hexDigits = "0123456789ABCDEF"

func plain(c byte) bool { return c > ' ' && c < 0x7f && c != '%' && c != '&' && c != '=' }

func escape(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; plain(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

func escapedSize(s string) int {
	n := len(s)
	for i := range len(s) {
		if !plain(s[i]) {
			n += 2
		}
	}
	return n
}

// unescape undoes escape. False: escape does not write such a text.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		if c != '%' || i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 || plain(byte(high<<4|low)) {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), true
}

func cut(s string, sep byte) (before, after string, found bool) {
	return strings.Cut(s, string(sep))
}
