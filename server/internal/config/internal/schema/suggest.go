package schema

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/server/internal/config/nearest"
)

var indexPattern = regexp.MustCompile(`\.?\[[0-9]+\](\([^)]*\))?`)

// AnyElement removes indices of lists: channel.namespaces[].presence.
func AnyElement(key string) string { return indexPattern.ReplaceAllString(key, "[]") }

// SuggestKey returns the key that an unknown path (Report.Keys) may mean: one with a similar name in the same section,
// or one that ends with this name. It may be empty.
func SuggestKey(cfg any, unknown string) string {
	unknown = AnyElement(unknown)
	known := allKeys(cfg, func(field) bool { return true })
	section := parent(unknown)
	var siblings []string
	for _, k := range known {
		if parent(k) == section {
			siblings = append(siblings, k)
		}
	}
	if s := nearest.Of(unknown, siblings); s != "" {
		return s
	}
	return moved(unknown, known, ".")
}

// SuggestEnv does the same for a variable (Report.Env).
func (r Report) SuggestEnv(unknown string, prefixes []string) string {
	for _, prefix := range prefixes {
		name, ok := strings.CutPrefix(unknown, prefix)
		if !ok {
			continue
		}
		known := make([]string, 0, len(r.known))
		for k := range r.known {
			known = append(known, k)
		}
		slices.Sort(known)
		s := nearest.Of(name, known)
		if s == "" {
			s = moved(name, known, "_")
		}
		if s != "" {
			return prefix + s
		}
	}
	return ""
}

// allKeys returns keys and sections as AnyElement does.
func allKeys(cfg any, want func(field) bool) (out []string) {
	var collect func(path, reflect.Type)
	collect = func(p path, t reflect.Type) {
		for _, f := range fieldsOf(t) {
			c := p.field(f)
			if want(f) {
				out = append(out, c.key)
				if f.fromFile {
					out = append(out, c.key+fileSuffix)
				}
			}
			switch f.kind {
			case kindSection:
				collect(c, f.typ)
			case kindList:
				collect(path{key: c.key + "[]", arg: c.arg}, f.typ.Elem())
			}
		}
	}
	collect(path{}, root(cfg).Type())
	return out
}

// moved returns the shortest key that ends with the words of name: client.token.hmac_secret_key for
// token_hmac_secret_key.
func moved(name string, keys []string, separator string) (best string) {
	name = name[strings.LastIndexByte(name, '.')+1:]
	words := strings.ReplaceAll(name, separator, "_")
	for _, k := range keys {
		rest, ok := strings.CutSuffix(strings.ReplaceAll(k, separator, "_"), words)
		if ok && strings.HasSuffix(rest, "_") && (best == "" || len(k) < len(best)) {
			best = k
		}
	}
	return best
}
