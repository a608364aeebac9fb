package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// mapping maps claims to members of the meta, or to labels.
type mapping []mapped

type mapped struct {
	path []string // names of members, from the outermost to the innermost
	name string
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// newMapping parses a mapping from paths of claims to names. Errors name the key below the section.
func newMapping(key string, names map[string]string) (mapping, error) {
	var m mapping
	taken := make(map[string]string)
	for _, text := range slices.Sorted(maps.Keys(names)) {
		name := names[text]
		if !namePattern.MatchString(name) {
			return nil, fmt.Errorf("%s: %.64q, which the claim %.64q becomes, does not match %s", key, name, text, namePattern)
		}
		if other, ok := taken[name]; ok {
			return nil, fmt.Errorf("%s: the claims %.64q and %.64q both become %s", key, other, text, name)
		}
		taken[name] = text
		path := splitPath(text)
		if slices.Contains(path, "") {
			return nil, fmt.Errorf("%s: the path of a claim, %.64q, has an empty part, or ends with a backslash", key, text)
		}
		m = append(m, mapped{path, name})
	}
	return m, nil
}

// splitPath splits a path at its dots. A backslash escapes the next character.
func splitPath(text string) []string {
	parts := []string{""}
	last := func() *string { return &parts[len(parts)-1] }
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '.':
			parts = append(parts, "")
		case '\\':
			if i++; i == len(text) {
				return append(parts, "")
			}
			fallthrough
		default:
			*last() += text[i : i+1]
		}
	}
	return parts
}

// find returns a claim by its path; null counts as absent.
func (c *claims) find(path []string) (json.RawMessage, bool) {
	raw, ok := c.get(path[0])
	for _, name := range path[1:] {
		if !ok {
			return nil, false
		}
		members, err := object(raw)
		if err != nil {
			return nil, false
		}
		inner := claims{members: members}
		raw, ok = inner.get(name)
	}
	return raw, ok
}

// values returns the claims of mappings; later mappings have precedence.
func (c *claims) values(mappings ...mapping) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	for _, m := range mappings {
		for _, x := range m {
			raw, ok := c.find(x.path)
			if !ok {
				continue
			}
			if out == nil {
				out = make(map[string]json.RawMessage)
			}
			out[x.name] = raw
		}
	}
	return out
}

func (c *claims) meta(members map[string]json.RawMessage) []byte {
	if len(members) == 0 {
		return c.json("meta")
	}
	all := c.object("meta").members
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	maps.Copy(all, members)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(all) != nil {
		c.wrong("meta")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// labels returns the claim labels and the given members, which have precedence, as texts. Other values than strings
// become their JSON.
func (c *claims) labels(members map[string]json.RawMessage) map[string]string {
	if _, ok := c.get("labels"); !ok && len(members) == 0 {
		return nil
	}
	labels := make(map[string]string)
	for _, values := range []map[string]json.RawMessage{c.object("labels").members, members} {
		for name, raw := range values {
			if text, ok := label(raw); ok {
				labels[name] = text
			}
		}
	}
	return labels
}

// label reports false for null.
func label(raw json.RawMessage) (text string, ok bool) {
	switch {
	case string(raw) == "null":
		return "", false
	case raw[0] == '"':
		err := json.Unmarshal(raw, &text)
		return text, err == nil
	}
	var out bytes.Buffer
	err := json.Compact(&out, raw)
	return out.String(), err == nil
}
