// Package origin decides which web origins may connect (docs/origins.md).
package origin

import (
	"fmt"
	"slices"
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

// New compiles glob patterns: * stands for any characters, ? for one, [abc] for one of a class,
// {a,b} for one of several texts. Without a pattern only requests without an origin are allowed;
// with the single pattern * all are. The error names the malformed pattern.
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

// maxLength is the length of the longest origin that is compared with patterns, in bytes: twice
// that of the longest host name.
const maxLength = 512

// Match reports whether an origin is allowed. origin is the value of the header, empty if there
// is none. It is compared in lower case, so a pattern with upper-case letters matches nothing.
// An origin of more than 512 bytes is refused.
func (m *Matcher) Match(origin string) bool {
	if m.any || origin == "" {
		return true
	}
	if len(origin) > maxLength {
		return false
	}
	origin = strings.ToLower(origin)
	return slices.ContainsFunc(m.patterns, func(p *glob.Pattern) bool { return p.Match(origin) })
}
