package schema

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// fileSuffix ends the key that names the file of a secret: http_api.key_file.
const fileSuffix = "_file"

// markFromFile marks the secrets that can be in files. Certificates and keys cannot: their keys take paths already.
func markFromFile(fs []field) {
	keys := make(map[string]bool, len(fs))
	for _, f := range fs {
		keys[f.key] = true
	}
	for i := range fs {
		f := &fs[i]
		f.fromFile = f.secret && f.typ.Name() != "PEM" && !keys[f.key+fileSuffix]
	}
}

// fromFile stores a secret that is in a file, and tells whether there is one.
func (l *loader) fromFile(p path, f field, v reflect.Value, raw, rawFile any) (found bool) {
	at := p
	at.key, at.msg = p.key+fileSuffix, p.msg+fileSuffix
	if p.env != "" {
		at.env = p.env + strings.ToUpper(fileSuffix)
	}
	name, source, err := l.fileName(at, rawFile)
	if err != nil {
		l.fail(at, source, err)
		return true
	}
	if name == "" {
		return false
	}
	if given := l.given(p, raw); given != "" {
		l.fail(p, given, fmt.Errorf("is given, and so is %s%s: leave one of them out", at.msg, from(source)))
		return true
	}
	text, err := l.secret(name)
	if err == nil {
		err = setSecret(v, f, text)
	}
	if err != nil {
		l.fail(at, source, err)
	}
	return true
}

// fileName returns the file of a secret, and the source of the name.
func (l *loader) fileName(p path, raw any) (name, source string, err error) {
	if text, ok := l.Flags[p.key]; ok {
		l.known[p.env] = true
		return text, "flag --" + p.key, nil
	}
	if variable, text := l.lookup(p); text != "" {
		return text, "variable " + variable, nil
	}
	if raw == nil {
		return "", "", nil
	}
	name, ok := raw.(string)
	if !ok {
		return "", "", fmt.Errorf("%s is not the name of a file", describe(raw, true))
	}
	return name, "", nil
}

// given tells the source of a key's value; "" if there is none.
func (l *loader) given(p path, raw any) string {
	if l.Flags[p.key] != "" {
		return "flag --" + p.key
	}
	if name, text := l.lookup(p); text != "" {
		return "variable " + name
	}
	switch raw := raw.(type) {
	case nil:
		return ""
	case string:
		if raw == "" {
			return ""
		}
	case []any:
		if len(raw) == 0 {
			return ""
		}
	case map[string]any:
		if len(raw) == 0 {
			return ""
		}
	}
	return "the configuration file"
}

func from(source string) string {
	if source == "" {
		return ""
	}
	return " (from " + source + ")"
}

// secret reads a file. One newline at its end does not count.
func (l *loader) secret(name string) (string, error) {
	if l.ReadSecret == nil {
		return "", errors.New("secrets are not read from files here")
	}
	data, err := l.ReadSecret(name)
	if err != nil {
		return "", err
	}
	if data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r")); len(data) == 0 {
		return "", fmt.Errorf("the file %s is empty", Clip(name))
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("the file %s is not UTF-8 text", Clip(name))
	}
	return string(data), nil
}

// setSecret stores the text of a file: a list has an item per line, a map is a JSON object.
func setSecret(v reflect.Value, f field, text string) error {
	if f.kind != kindStrings {
		return setText(v, f, text)
	}
	var items []any
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			items = append(items, line)
		}
	}
	return setStrings(v, f, items)
}
