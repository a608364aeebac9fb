package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobwas/glob"
)

// Origins are the patterns of client.allowed_origins (docs/origins.md). It is immutable.
type Origins struct {
	any      bool
	patterns []*glob.Pattern
}

// NewOrigins compiles glob patterns: * any characters, ? one, [abc] a class, {a,b} alternatives. Without patterns only
// requests without an origin are allowed; the single pattern * allows all. The error names the malformed pattern.
func NewOrigins(patterns []string) (*Origins, error) {
	m := &Origins{any: len(patterns) == 1 && patterns[0] == "*"}
	for i, p := range patterns {
		g, err := glob.Compile(strings.ToLower(p))
		if err != nil {
			return nil, fmt.Errorf("pattern %d, %s: %w", i, strconv.Quote(p), err)
		}
		m.patterns = append(m.patterns, g)
	}
	return m, nil
}

// Foreign reports whether a page of an origin that is not allowed caused a request. field returns a header field.
// Browsers send navigations and embedded resources without Origin, with the user's cookies: no client sends such
// requests, so they are foreign, also from the same site. Clients without a browser have none of these fields.
func (m *Origins) Foreign(field func(name string) string) bool {
	if m.any {
		return false
	}
	if origin := field("Origin"); origin != "" {
		return !m.Match(origin)
	}
	switch field("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	return field("Sec-Fetch-Mode") == "navigate"
}

// maxOriginLength bounds origins in bytes: twice the longest host name.
const maxOriginLength = 512

// Match reports whether an origin is allowed; an empty one is. Letter case does not matter. More than 512 bytes are
// refused.
func (m *Origins) Match(origin string) bool {
	if m.any || origin == "" {
		return true
	}
	if len(origin) > maxOriginLength {
		return false
	}
	origin = strings.ToLower(origin)
	return slices.ContainsFunc(m.patterns, func(p *glob.Pattern) bool { return p.Match(origin) })
}
