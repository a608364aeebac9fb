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

// object is a JSON object with ordered members.
type object []member

type member struct {
	key   string
	value any // bool, int64, string, []any or object
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	members := make([]string, len(o))
	for i, m := range o {
		members[i] = jsonText(m.key) + ":" + jsonText(m.value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// Write writes every key of cfg as json, yaml or toml. Loading the text gives the same configuration.
func Write(w io.Writer, cfg any, format string) error {
	tree := toObject(path{}, root(cfg))
	var buf bytes.Buffer
	switch format {
	case "json":
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(tree); err != nil {
			return err
		}
	case "yaml":
		writeYAML(&buf, tree, "")
	case "toml":
		data, err := toml.Marshal(plain(tree))
		if err != nil {
			return err
		}
		buf.Write(data)
	default:
		return fmt.Errorf("unknown format %q", Clip(format))
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

// mapTree returns an object, or a list of {key, value} if loading an object would change a key.
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

// jsonText is JSON in one line; bools, numbers and strings are valid YAML too.
func jsonText(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("schema: " + err.Error()) // all types of a tree have a JSON form
	}
	return strings.TrimSuffix(buf.String(), "\n")
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
			return jsonText(key)
		}
	}
	if slices.Contains([]string{"", "y", "n", "yes", "no", "on", "off", "true", "false", "null"}, key) {
		return jsonText(key)
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
		buf.WriteString(" " + jsonText(v) + "\n")
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
