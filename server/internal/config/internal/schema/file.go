package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
)

// Format returns the format of a file by its extension.
func Format(file string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".json", ".toml", ".yaml":
		return ext[1:], nil
	case ".yml":
		return "yaml", nil
	default:
		return "", fmt.Errorf("file extension %q is not one of .json, .yaml, .yml, .toml", Clip(ext))
	}
}

// ParseFile parses a file. Errors name the position but quote nothing, which may be a secret.
func ParseFile(format string, data []byte) (any, error) {
	switch format {
	case "json":
		return parseJSONFile(data)
	case "yaml":
		var out any
		if err := yaml.Unmarshal(data, &out); err != nil {
			return nil, errors.New("not valid YAML: " + yaml.FormatError(err, false, false))
		}
		return out, nil
	case "toml":
		out := map[string]any{}
		if err := toml.Unmarshal(data, &out); err != nil {
			var bad *toml.DecodeError
			if errors.As(err, &bad) {
				line, column := bad.Position()
				return nil, fmt.Errorf("not valid TOML: line %d, column %d: %w", line, column, err)
			}
			return nil, fmt.Errorf("not valid TOML: %w", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unknown format %q", Clip(format))
}

func parseJSONFile(data []byte) (any, error) {
	out, err := parseJSON(data)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := min(max(syntax.Offset, 0), int64(len(data)))
		return nil, fmt.Errorf("not valid JSON: line %d: %w", 1+strings.Count(string(data[:at]), "\n"), err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("not valid JSON: line %d: the text ends inside of a value", 1+strings.Count(strings.TrimRight(string(data), " \t\r\n"), "\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	return out, nil
}

// normalize folds keys to lower case, and makes every map a map[string]any. Two keys that fold to one are an error.
func normalize(raw any) (any, error) {
	switch raw := raw.(type) {
	case map[string]any:
		out := make(map[string]any, len(raw))
		for _, k := range slices.Sorted(maps.Keys(raw)) {
			if err := putFolded(out, k, raw[k]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[any]any:
		out := make(map[string]any, len(raw))
		for k, v := range raw {
			if err := putFolded(out, fmt.Sprint(k), v); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(raw))
		for i, v := range raw {
			n, err := normalize(v)
			if err != nil {
				return nil, err
			}
			out[i] = n
		}
		return out, nil
	}
	return raw, nil
}

func putFolded(out map[string]any, key string, value any) error {
	folded := strings.ToLower(key)
	if _, dup := out[folded]; dup {
		return fmt.Errorf("key %q is given twice (letter case does not count)", Clip(key))
	}
	n, err := normalize(value)
	out[folded] = n
	return err
}

// expandDots makes nested keys of top-level keys such as "http_api.key".
func expandDots(tree map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(tree))
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		value := tree[key]
		parts := strings.Split(key, ".")
		for i := len(parts) - 1; i > 0; i-- {
			value = map[string]any{parts[i]: value}
		}
		if err := merge(out, parts[0], value, key); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merge adds value to node under name, and joins objects. key is for errors.
func merge(node map[string]any, name string, value any, key string) error {
	old, ok := node[name]
	if !ok || old == nil {
		node[name] = value
		return nil
	}
	if value == nil {
		return nil
	}
	oldMap, ok1 := old.(map[string]any)
	newMap, ok2 := value.(map[string]any)
	if !ok1 || !ok2 {
		return fmt.Errorf("key %q is given twice, dotted and nested", Clip(key))
	}
	for k, v := range newMap {
		if err := merge(oldMap, k, v, key); err != nil {
			return err
		}
	}
	return nil
}
