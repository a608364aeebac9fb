package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// object is a map that remembers the order of its members.
type object []member

type member struct {
	key   string
	value any // bool, int64, string, []any or object
}

// Write writes every key of cfg in the given format ("json", "yaml" or "toml"),
// so that loading the text yields the same configuration.
func Write(w io.Writer, cfg any, format string) error {
	tree := toObject(path{}, root(cfg))
	var buf bytes.Buffer
	switch format {
	case "json":
		writeJSON(&buf, tree, "")
		buf.WriteByte('\n')
	case "yaml":
		writeYAML(&buf, tree, "")
	case "toml":
		data, err := toml.Marshal(plain(tree))
		if err != nil {
			return err
		}
		buf.Write(data)
	default:
		return fmt.Errorf("unknown format %q", clip(format))
	}
	_, err := w.Write(buf.Bytes())
	return err
}

func toObject(p path, v reflect.Value) object {
	var out object
	for _, f := range fieldsOf(v.Type()) {
		out = append(out, member{p.fill(f.key), toTree(p.field(f), f, v.FieldByIndex(f.index))})
	}
	return out
}

func toTree(p path, f field, v reflect.Value) any {
	switch f.kind {
	case kindSection:
		return toObject(p, v)
	case kindList:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = toObject(p.element(i, ""), v.Index(i))
		}
		return items
	case kindBool:
		return v.Bool()
	case kindInt:
		return v.Int()
	case kindDuration:
		return time.Duration(v.Int()).String()
	case kindStrings:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = v.Index(i).String()
		}
		return items
	case kindMap:
		return mapTree(v.Interface().(map[string]string))
	}
	return v.String()
}

// mapTree uses the object form unless a key would not survive it.
func mapTree(m map[string]string) any {
	keys := slices.Sorted(maps.Keys(m))
	exact := slices.ContainsFunc(keys, func(k string) bool {
		return strings.Contains(k, ".") || strings.ToLower(k) != k
	})
	if !exact {
		out := object{}
		for _, k := range keys {
			out = append(out, member{k, m[k]})
		}
		return out
	}
	items := make([]any, 0, len(m))
	for _, k := range keys {
		items = append(items, object{{"key", k}, {"value", m[k]}})
	}
	return items
}

// scalar is the JSON form of a leaf. It is also its YAML form: quoted strings of
// JSON are strings of YAML.
func scalar(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("schema: " + err.Error()) // bool, int64 and string have a JSON form
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

func writeJSON(buf *bytes.Buffer, v any, indent string) {
	inner := indent + "  "
	switch v := v.(type) {
	case object:
		for i, m := range v {
			buf.WriteString(separator("{", i) + inner + scalar(m.key) + ": ")
			writeJSON(buf, m.value, inner)
		}
		buf.WriteString(closing("{", "}", len(v), indent))
	case []any:
		for i, item := range v {
			buf.WriteString(separator("[", i) + inner)
			writeJSON(buf, item, inner)
		}
		buf.WriteString(closing("[", "]", len(v), indent))
	default:
		buf.WriteString(scalar(v))
	}
}

func separator(open string, i int) string {
	if i == 0 {
		return open + "\n"
	}
	return ",\n"
}

func closing(open, end string, n int, indent string) string {
	if n == 0 {
		return open + end
	}
	return "\n" + indent + end
}

func writeYAML(buf *bytes.Buffer, v object, indent string) {
	for _, m := range v {
		buf.WriteString(indent + yamlKey(m.key) + ":")
		writeYAMLValue(buf, m.value, indent)
	}
}

func yamlKey(key string) string {
	for _, r := range key {
		if r != '_' && (r < 'a' || r > 'z') {
			return scalar(key)
		}
	}
	if slices.Contains([]string{"", "y", "n", "yes", "no", "on", "off", "true", "false", "null"}, key) {
		return scalar(key)
	}
	return key
}

func writeYAMLValue(buf *bytes.Buffer, v any, indent string) {
	switch v := v.(type) {
	case object:
		if len(v) == 0 {
			buf.WriteString(" {}\n")
			return
		}
		buf.WriteByte('\n')
		writeYAML(buf, v, indent+"  ")
	case []any:
		if len(v) == 0 {
			buf.WriteString(" []\n")
			return
		}
		buf.WriteByte('\n')
		for _, item := range v {
			buf.WriteString(indent + "  -")
			writeYAMLValue(buf, item, indent+"  ")
		}
	default:
		buf.WriteString(" " + scalar(v) + "\n")
	}
}

func plain(v any) any {
	switch v := v.(type) {
	case object:
		out := make(map[string]any, len(v))
		for _, m := range v {
			out[m.key] = plain(m.value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = plain(item)
		}
		return out
	}
	return v
}
