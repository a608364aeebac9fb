package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Clip shortens input for a message to 64 bytes.
func Clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// describe names a bad value. It does not quote objects and lists, which may hold secrets.
func describe(raw any, secret bool) string {
	switch raw := raw.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if secret {
			return "the given text"
		}
		return strconv.Quote(Clip(raw))
	default:
		if secret {
			return "the given value"
		}
		return Clip(fmt.Sprint(raw))
	}
}

// literal returns a string of a file, or the text of a number.
func literal(raw any) (string, bool) {
	if text, ok := raw.(string); ok {
		return text, true
	}
	return numberText(raw)
}

func numberText(raw any) (string, bool) {
	switch n := raw.(type) {
	case json.Number:
		return n.String(), true
	case int64:
		return strconv.FormatInt(n, 10), true
	case uint64:
		return strconv.FormatUint(n, 10), true
	case int:
		return strconv.Itoa(n), true
	case float64:
		return strconv.FormatFloat(n, 'f', -1, 64), true
	}
	return "", false
}

// parseWhole reads a whole number of a file: 8000, 8e3, 8000.0.
func parseWhole(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<63 {
		return 0, false
	}
	return int64(x), true
}

// setValue stores a value of a file, or of JSON in a variable.
func setValue(v reflect.Value, f field, raw any) error {
	var want string
	text, isText := raw.(string)
	number, _ := numberText(raw)
	switch f.kind {
	case kindBool:
		want = "a boolean"
		if b, ok := raw.(bool); ok {
			v.SetBool(b)
			return nil
		}
		if n, ok := parseWhole(number); ok {
			v.SetBool(n != 0)
			return nil
		}
		if raw == "" {
			return nil
		}
	case kindInt:
		want = "a whole number in the range of 64 bits"
		if n, ok := parseWhole(number); ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return nil
		}
		if raw == "" {
			return nil
		}
	case kindString:
		want = "a string"
		text, isText = literal(raw)
	case kindDuration:
		want = `a duration such as "30s"`
		if n, ok := parseWhole(number); ok {
			v.SetInt(n) // nanoseconds
			return nil
		}
	case kindStrings:
		return setStrings(v, f, raw)
	case kindMap:
		return setMap(v, f, raw)
	}
	if !isText {
		return fmt.Errorf("%s is not %s", describe(raw, f.secret), want)
	}
	return setText(v, f, text)
}

func setStrings(v reflect.Value, f field, raw any) error {
	items, ok := raw.([]any)
	if !ok {
		items = []any{raw}
		if raw == "" {
			items = nil
		}
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		text, ok := literal(item)
		if !ok {
			return fmt.Errorf("item %d: %s is not a string", i, describe(item, f.secret))
		}
		out = append(out, text)
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// setMap takes an object, whose keys normalize has folded to lower case, or a list of {key, value} with exact keys.
func setMap(v reflect.Value, f field, raw any) error {
	out := map[string]string{}
	put := func(key string, value any) error {
		text, ok := literal(value)
		if !ok {
			return fmt.Errorf("value of %q: %s is not a string", Clip(key), describe(value, f.secret))
		}
		if _, dup := out[key]; dup {
			return fmt.Errorf("key %q is given twice", Clip(key))
		}
		out[key] = text
		return nil
	}
	switch raw := raw.(type) {
	case map[string]any:
		for k, value := range raw {
			if strings.Contains(k, ".") {
				return fmt.Errorf("key %q contains a dot: use a list of {key, value} for such keys", Clip(k))
			}
			if err := put(k, value); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range raw {
			pair, ok := item.(map[string]any)
			key, isText := pair["key"].(string)
			if !ok || !isText {
				return fmt.Errorf("item %d is not an object {key, value}", i)
			}
			value := pair["value"]
			if value == nil {
				value = ""
			}
			if err := put(key, value); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s is not an object", describe(raw, f.secret))
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// setText stores the text of a variable, a flag or a default.
func setText(v reflect.Value, f field, text string) error {
	fail := func(want string) error {
		return fmt.Errorf("%s is not %s", describe(text, f.secret), want)
	}
	switch f.kind {
	case kindBool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fail("a boolean (true or false)")
		}
		v.SetBool(b)
	case kindInt:
		n, err := strconv.ParseInt(text, 0, v.Type().Bits())
		if err != nil {
			return fail("a whole number in the range of 64 bits")
		}
		v.SetInt(n)
	case kindString:
		v.SetString(text)
	case kindDuration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fail(`a duration with a unit, such as "30s"`)
		}
		v.SetInt(int64(d))
	case kindStrings:
		v.Set(reflect.ValueOf(slices.DeleteFunc(strings.Split(text, " "), func(item string) bool { return item == "" })))
	case kindMap:
		var out map[string]string
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return errors.New("the text is not a JSON object of strings")
		}
		v.Set(reflect.ValueOf(out))
	}
	return nil
}

// parseJSON reads one JSON value. Numbers keep their text.
func parseJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("there is more than one value")
	}
	return out, nil
}
