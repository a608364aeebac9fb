package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// clip bounds a piece of input that goes into a message.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// describe names an offending value; objects and lists are not spelled out, for
// they may hold secrets.
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
		return strconv.Quote(clip(raw))
	default:
		if secret {
			return "the given value"
		}
		return clip(fmt.Sprint(raw))
	}
}

// numberText returns the literal of a number of a file.
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

// parseWhole reads a number of a file that has to be whole: 8000, 8e3, 8000.0.
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

// setValue stores a value of a file (or of JSON in a variable) into a leaf.
func setValue(v reflect.Value, f field, raw any) error {
	fail := func(want string) error {
		return fmt.Errorf("%s is not %s", describe(raw, f.secret), want)
	}
	text, isText := raw.(string)
	number, isNumber := numberText(raw)
	switch f.kind {
	case kindBool:
		if b, ok := raw.(bool); ok {
			v.SetBool(b)
			return nil
		}
		if n, ok := parseWhole(number); isNumber && ok {
			v.SetBool(n != 0)
			return nil
		}
		if isText && text == "" {
			return nil
		}
		if isText {
			return setText(v, f, text)
		}
		return fail("a boolean")
	case kindInt:
		if n, ok := parseWhole(number); isNumber && ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return nil
		}
		if isText && text == "" {
			return nil
		}
		if isText {
			return setText(v, f, text)
		}
		return fail("a whole number in the range of 64 bits")
	case kindString:
		if !isText && !isNumber {
			return fail("a string")
		}
		v.SetString(text + number) // one of them is empty
		return nil
	case kindDuration:
		if n, ok := parseWhole(number); isNumber && ok {
			v.SetInt(n) // nanoseconds
			return nil
		}
		if isText {
			return setText(v, f, text)
		}
		return fail(`a duration such as "30s"`)
	case kindStrings:
		return setStrings(v, f, raw)
	case kindMap:
		return setMap(v, f, raw)
	}
	return fail("valid")
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
		text, isText := item.(string)
		number, isNumber := numberText(item)
		if !isText && !isNumber {
			return fmt.Errorf("item %d: %s is not a string", i, describe(item, f.secret))
		}
		out = append(out, text+number)
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// setMap takes an object, whose keys a file's format may have folded to lower
// case, or a list of {key, value}, whose keys are exact.
func setMap(v reflect.Value, f field, raw any) error {
	out := map[string]string{}
	put := func(key string, value any) error {
		text, isText := value.(string)
		number, isNumber := numberText(value)
		if !isText && !isNumber {
			return fmt.Errorf("value of %q: %s is not a string", clip(key), describe(value, f.secret))
		}
		if _, dup := out[key]; dup {
			return fmt.Errorf("key %q is given twice", clip(key))
		}
		out[key] = text + number
		return nil
	}
	switch raw := raw.(type) {
	case map[string]any:
		for k, value := range raw {
			if strings.Contains(k, ".") {
				return fmt.Errorf("key %q contains a dot: use a list of {key, value} for such keys", clip(k))
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

// setText stores the text form of a value: of a variable, a flag or a default.
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
		var out []string
		for item := range strings.SplitSeq(text, " ") {
			if item != "" {
				out = append(out, item)
			}
		}
		v.Set(reflect.ValueOf(out))
	case kindMap:
		var out map[string]string
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return errors.New("the text is not a JSON object of strings")
		}
		v.Set(reflect.ValueOf(out))
	}
	return nil
}

// parseJSON reads one JSON value, numbers as they are written.
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
