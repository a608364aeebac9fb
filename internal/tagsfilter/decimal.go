package tagsfilter

import (
	"cmp"
	"strings"
)

const (
	maxDecimal  = 200
	maxFraction = 19
)

// decimal is a number in two parts, without leading and trailing zeros, so that comparing digits compares numbers.
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
		d.negative = false // -0 equals 0
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

func (d decimal) compare(e decimal) int {
	switch {
	case d.negative && e.negative:
		d, e = e, d // the greater magnitude is the lesser number
	case d.negative:
		return -1
	case e.negative:
		return 1
	}
	if c := cmp.Compare(len(d.integer), len(e.integer)); c != 0 {
		return c
	}
	if c := strings.Compare(d.integer, e.integer); c != 0 {
		return c
	}
	return strings.Compare(d.fraction, e.fraction)
}
