package schema

// maxExponent bounds exponents in payloads. PostgreSQL writes all digits of the numbers of a jsonb: the 8 bytes of
// 1e131071 become 131,072 for each reader. Floating point numbers of 64 bits have exponents up to 324.
const maxExponent = 400

// grows tells whether a number in a JSON text has a greater exponent.
func grows(json []byte) bool {
	for i := 0; i < len(json); i++ {
		switch c := json[i]; c {
		case '"':
			for i++; i < len(json) && json[i] != '"'; i++ {
				if json[i] == '\\' {
					i++
				}
			}
		case 'e', 'E':
			if i > 0 && isDigit(json[i-1]) && exponent(json[i+1:]) > maxExponent {
				return true
			}
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// exponent returns the absolute value of the exponent that text begins with, cut near maxExponent.
func exponent(text []byte) int {
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	n := 0
	for i := 0; i < len(text) && isDigit(text[i]) && n <= maxExponent; i++ {
		n = 10*n + int(text[i]-'0')
	}
	return n
}
