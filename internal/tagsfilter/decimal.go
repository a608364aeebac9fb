package tagsfilter

import "strings"

// Bounds of a decimal number (recovery.md 10.2).
const (
	maxDecimal  = 200
	maxFraction = 19
)

// decimal is a number taken apart, without leading zeros before and trailing
// zeros after the point, so that comparing digits compares numbers.
type decimal struct {
	valid, negative   bool
	integer, fraction string
}

// parseDecimal takes an optional sign, digits, and optionally a point and digits.
func parseDecimal(s string) (decimal, bool) {
	if len(s) > maxDecimal || s == "" {
		return decimal{}, false
	}
	d := decimal{valid: true}
	if s[0] == '+' || s[0] == '-' {
		d.negative = s[0] == '-'
		s = s[1:]
	}
	integer, fraction, point := strings.Cut(s, ".")
	if !digits(integer) || point && (!digits(fraction) || len(fraction) > maxFraction) {
		return decimal{}, false
	}
	d.integer = strings.TrimLeft(integer, "0")
	d.fraction = strings.TrimRight(fraction, "0")
	if d.integer == "" && d.fraction == "" {
		d.negative = false // there is one zero
	}
	return d, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// compare is -1, 0 or 1 as d is less than, equal to or greater than e.
func (d decimal) compare(e decimal) int {
	if d.negative != e.negative {
		if d.negative {
			return -1
		}
		return 1
	}
	c := d.compareMagnitude(e)
	if d.negative {
		return -c
	}
	return c
}

func (d decimal) compareMagnitude(e decimal) int {
	if len(d.integer) != len(e.integer) {
		if len(d.integer) < len(e.integer) {
			return -1
		}
		return 1
	}
	if c := strings.Compare(d.integer, e.integer); c != 0 {
		return c
	}
	return strings.Compare(d.fraction, e.fraction)
}
