package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern bounds the bytes of a pattern, and so the cost of compiling and matching.
const maxPattern = 1024

// compileGlob compiles a pattern. match reports whether the whole of a name matches, and may be called from any
// goroutine. The empty pattern matches every name. * and ** stand for any characters, ? for one, [a-c] and [!ab] for one
// of a class, {foo,bar} for alternatives; a character behind a backslash stands for itself. The pattern becomes an RE2
// expression, which matches in linear time. Glob libraries backtrack, so one request with nested alternatives could hold
// a CPU for hours.
func compileGlob(pattern string) (match func(name string) bool, err error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern is longer than %d bytes", maxPattern)
	}
	var expr strings.Builder
	expr.WriteString(`\A(?s:`)
	depth := 0
	runes := []rune(pattern)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; {
		case c == '*':
			expr.WriteString(`.*`)
		case c == '?':
			expr.WriteByte('.')
		case c == '\\':
			if i++; i == len(runes) {
				return nil, errors.New("pattern ends with a backslash")
			}
			expr.WriteString(regexp.QuoteMeta(string(runes[i])))
		case c == '[':
			n, err := class(&expr, runes[i+1:])
			if err != nil {
				return nil, err
			}
			i += n
		case c == '{':
			depth++
			expr.WriteString(`(?:`)
		case c == '}' && depth > 0:
			depth--
			expr.WriteByte(')')
		case c == ',' && depth > 0:
			expr.WriteByte('|')
		default:
			expr.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	if depth > 0 {
		return nil, errors.New("unclosed { in pattern")
	}
	expr.WriteString(`)\z`)
	re, err := regexp.Compile(expr.String())
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}

// class translates a class that begins behind the opening bracket, and returns its length in runes with the closing one.
func class(expr *strings.Builder, in []rune) (int, error) {
	i := 0
	expr.WriteByte('[')
	if len(in) > 0 && in[0] == '!' {
		expr.WriteByte('^')
		i++
	}
	first := i
	next := func() (rune, error) {
		if i < len(in) && in[i] == '\\' {
			i++
		}
		if i >= len(in) {
			return 0, errors.New("unclosed [ in pattern")
		}
		i++
		return in[i-1], nil
	}
	for {
		if i < len(in) && in[i] == ']' {
			if i == first {
				return 0, errors.New("empty [] in pattern")
			}
			expr.WriteByte(']')
			return i + 1, nil
		}
		lo, err := next()
		if err != nil {
			return 0, err
		}
		hi := lo
		if i+1 < len(in) && in[i] == '-' && in[i+1] != ']' {
			i++
			if hi, err = next(); err != nil {
				return 0, err
			}
		}
		if hi < lo {
			return 0, fmt.Errorf("range %c-%c in pattern is backwards", lo, hi)
		}
		fmt.Fprintf(expr, `\x{%x}-\x{%x}`, lo, hi)
	}
}
