package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobwas/glob"
)

// Origins holds the patterns of client.allowed_origins, which decide which web origins may connect (docs/origins.md).
// It is immutable and safe for concurrent use.
type Origins struct {
	any      bool
	patterns []*glob.Pattern
}

// NewOrigins compiles glob patterns: * stands for any characters, ? for one, [abc] for one of a class,
// {a,b} for one of several texts. Without a pattern only requests without an origin are allowed;
// with the single pattern * all are. The error names the malformed pattern.
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

// Foreign reports whether a page of an origin that is not allowed made a browser send a request. field returns the
// value of a field of the request, empty if there is none. Browsers send navigations and embedded resources without
// Origin, with the cookies of the user: no client sends such requests, so they count as foreign, also if the browser
// does not say that they come from another site. Clients without a browser have none of these fields.
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

// maxOriginLength is the length of the longest origin that is compared with patterns, in bytes: twice the length of the
// longest host name.
const maxOriginLength = 512

// Match reports whether an origin is allowed. origin is the value of the header, empty if there
// is none. Letters match in upper and lower case.
// An origin of more than 512 bytes is refused.
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
