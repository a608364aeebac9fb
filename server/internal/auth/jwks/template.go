package jwks

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Template is the URL of an endpoint, with placeholders {{name}} for values of claims.
type Template struct {
	text  string
	names []string // of the placeholders
	// origin has scheme, user and host, which no value changes.
	origin string
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// ParseTemplate parses an http:// or https:// URL with placeholders in path and query.
func ParseTemplate(text string) (*Template, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("not an http:// or https:// URL, with placeholders in path and query only")
	}
	t := &Template{text: text, origin: origin(u)}
	for _, m := range placeholder.FindAllStringSubmatch(u.Path+" "+u.RawQuery, -1) {
		t.names = append(t.names, m[1])
	}
	if rest := placeholder.ReplaceAllString(text, ""); strings.Contains(rest, "{{") || strings.Contains(rest, "}}") {
		return nil, errors.New("a placeholder is not {{name}}, of letters, digits and _")
	}
	if strings.Contains(u.Fragment, "{{") || strings.Contains(t.origin, "{{") {
		return nil, errors.New("placeholders may be in path and query only")
	}
	if t.Static() {
		_, err = t.URL(nil)
	}
	return t, err
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.User.String() + "@" + u.Host }

// Static tells that the template has no placeholder.
func (t *Template) Static() bool { return len(t.names) == 0 }

// URL fills in the placeholders, with nothing if there is no value. The path must be clean: without ., .., double
// slashes and a slash at its end.
func (t *Template) URL(values map[string]string) (string, error) {
	text := placeholder.ReplaceAllStringFunc(t.text, func(p string) string { return values[p[2:len(p)-2]] })
	u, err := url.Parse(text)
	if err != nil || origin(u) != t.origin {
		return "", errors.New("the claims do not make a URL of the JWKS endpoint")
	}
	if u.Path != "" && path.Clean(u.Path) != u.Path {
		return "", errors.New("the path has ., .., // or a slash at its end")
	}
	return text, nil
}

// CheckSafe refuses placeholders with values that can be anything, because they are taken from tokens that are not
// verified yet. patterns match claims: each group that fills a placeholder must be a choice of literal texts, and no
// pattern may have a class of characters.
func (t *Template) CheckSafe(patterns ...*regexp.Regexp) error {
	if t.Static() {
		return nil
	}
	for _, p := range patterns {
		if p == nil {
			continue
		}
		if hasClass(p.String()) {
			return fmt.Errorf("the URL has placeholders, so %q must have no class of characters", p)
		}
		tree, err := syntax.Parse(p.String(), syntax.Perl)
		if err != nil {
			return err
		}
		if name := t.open(tree); name != "" {
			return fmt.Errorf("group %s of %q fills a placeholder, so it must be a choice of literal texts, such as (?P<%s>a|b)", name, p, name)
		}
	}
	return nil
}

// hasClass reports [ without a backslash, and escapes for many characters.
func hasClass(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '[':
			return true
		case '\\':
			i++
			if i < len(pattern) && strings.IndexByte("dDwWsSpP", pattern[i]) >= 0 {
				return true
			}
		}
	}
	return false
}

// open returns the name of a group that fills a placeholder and is not a choice of literal texts.
func (t *Template) open(re *syntax.Regexp) string {
	if re.Op == syntax.OpCapture && slices.Contains(t.names, re.Name) && !closed(re.Sub[0]) {
		return re.Name
	}
	for _, sub := range re.Sub {
		if name := t.open(sub); name != "" {
			return name
		}
	}
	return ""
}

// closed reports whether an expression is a choice of literal texts. The parser makes a class of a choice of single
// characters; the pattern has no other classes.
func closed(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpEmptyMatch:
		return true
	case syntax.OpConcat, syntax.OpAlternate, syntax.OpCapture:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !closed(sub) })
	}
	return false
}
