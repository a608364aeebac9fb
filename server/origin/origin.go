// Package origin decides which web origins may connect (config.md section 6).
package origin

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gobwas/glob"
)

// Matcher holds the patterns of client.allowed_origins. It is immutable and safe
// for concurrent use.
type Matcher struct {
	any      bool
	patterns []*glob.Pattern
}

// New compiles glob patterns: * stands for any characters, ? for one, [abc] for
// one of a class, {a,b} for one of several. No pattern means that only requests
// without an origin are allowed, the single pattern * that all are. The error
// names the malformed pattern.
func New(patterns []string) (*Matcher, error) {
	m := &Matcher{any: len(patterns) == 1 && patterns[0] == "*"}
	for i, p := range patterns {
		g, err := glob.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("pattern %d, %s: %w", i, strconv.Quote(p), err)
		}
		m.patterns = append(m.patterns, g)
	}
	return m, nil
}

// maxLength is the most bytes of an origin that is compared with patterns: twice what
// the longest host name needs.
const maxLength = 512

// Match reports whether an origin is allowed, as the header has it; empty when
// there is none. The origin is compared in lower case, the patterns are not: one
// with upper-case letters matches nothing. One of more than 512 bytes is refused.
func (m *Matcher) Match(origin string) bool {
	if m.any || origin == "" {
		return true
	}
	if len(origin) > maxLength {
		return false
	}
	origin = strings.ToLower(origin)
	for _, p := range m.patterns {
		if p.Match(origin) {
			return true
		}
	}
	return false
}
