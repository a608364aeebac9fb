package schema

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Source has the values, in this order: flags, non-empty variables, file, default.
type Source struct {
	// Prefixes of variables with their underscore, the strongest first.
	Prefixes []string
	Env      map[string]string
	// Flags has the texts of given flags by dotted key.
	Flags map[string]string
	// File is as ParseFile returns it.
	File any
	// ReadSecret reads a secret's file; nil: such files are errors.
	ReadSecret func(name string) ([]byte, error)
	// Thorough also reports unknown members of lists in a variable.
	Thorough bool
}

// Report has unknown keys and variables, sorted.
type Report struct {
	Keys []string // of the file, as paths
	Env  []string // names of variables

	FromEnv bool // variables set keys

	// Vars has the variables that set keys, by path.
	Vars map[string]string
	// Replaced has the paths of lists of the file that a variable replaced.
	Replaced []string
	// Given has the paths of the keys that the file sets, without sections.
	Given map[string]bool

	known map[string]bool // variables without prefix
}

type loader struct {
	Source
	Report
	errs []error
}

// Load fills the struct dst. The joined error has every bad value by key and source.
func Load(dst any, src Source) (Report, error) {
	l := &loader{Source: src, Report: Report{known: map[string]bool{}, Vars: map[string]string{}, Given: map[string]bool{}}}
	file, err := normalize(src.File)
	if err != nil {
		return Report{}, err
	}
	tree, ok := file.(map[string]any)
	if !ok && file != nil {
		return Report{}, fmt.Errorf("the file holds %s, not an object of keys", describe(file, true))
	}
	if tree, err = expandDots(tree); err != nil {
		return Report{}, err
	}
	l.section(path{}, root(dst), tree, false)
	l.checkFlags(dst)
	slices.Sort(l.Keys)
	l.Report.Env, l.FromEnv = l.unknownEnv(), len(l.Vars) > 0
	return l.Report, errors.Join(l.errs...)
}

func (l *loader) fail(p path, source string, err error) {
	if source != "" {
		err = fmt.Errorf("%w (from %s)", err, source)
	}
	l.errs = append(l.errs, &Problem{p.msg, err})
}

func (l *loader) section(p path, v reflect.Value, node map[string]any, quiet bool) {
	known := make(map[string]bool, len(node))
	known[schemaKey] = p.key == "" // which names a JSON schema for editors
	for _, f := range fieldsOf(v.Type()) {
		c := p.field(f)
		key := p.fill(f.key)
		known[key] = true
		if f.kind != kindSection && (node[key] != nil || f.fromFile && node[key+fileSuffix] != nil) {
			l.Given[c.key] = true
		}
		if f.fromFile {
			known[key+fileSuffix] = true
			if l.fromFile(c, f, v.FieldByIndex(f.index), node[key], node[key+fileSuffix]) {
				continue
			}
		}
		l.field(c, f, v.FieldByIndex(f.index), node[key], quiet)
	}
	if quiet {
		return
	}
	for key := range node {
		if !known[key] {
			l.Keys = append(l.Keys, p.child(key).key)
		}
	}
}

func (l *loader) field(p path, f field, v reflect.Value, raw any, quiet bool) {
	switch f.kind {
	case kindSection:
		node, ok := raw.(map[string]any)
		if !ok && raw != nil {
			l.fail(p, "", fmt.Errorf("%s is not an object", describe(raw, true)))
		}
		l.section(p, v, node, quiet)
	case kindList:
		l.list(p, f, v, raw, quiet)
	default:
		l.leaf(p, f, v, raw)
	}
}

func (l *loader) leaf(p path, f field, v reflect.Value, raw any) {
	var err error
	source := ""
	if text, ok := l.Flags[p.key]; ok {
		l.known[p.env] = true
		source, err = "flag --"+p.key, setText(v, f, text)
	} else if name, text := l.lookup(p); text != "" {
		source, err = "variable "+name, setText(v, f, text)
	} else if raw != nil {
		err = setValue(v, f, raw)
	}
	if err == nil && f.kind == kindMap {
		err = l.expandVars(v)
	}
	if err != nil {
		l.fail(p, source, err)
	}
	if def := p.fill(f.def); def != "" && isEmpty(v) {
		if err := setText(v, f, def); err != nil {
			l.fail(p, "default", err)
		}
	}
}

// lookup returns the variable of a path, if it is set.
func (l *loader) lookup(p path) (name, text string) {
	if p.env == "" {
		return "", ""
	}
	l.known[p.env] = true
	for _, prefix := range l.Prefixes {
		if text := l.Source.Env[prefix+p.env]; text != "" {
			l.Vars[p.key] = prefix + p.env
			return prefix + p.env, text
		}
	}
	return "", ""
}

func (l *loader) list(p path, f field, v reflect.Value, raw any, quiet bool) {
	var nodes []any
	switch raw := raw.(type) {
	case nil:
	case []any:
		nodes = raw
	case map[string]any:
		if len(raw) > 0 {
			nodes = []any{raw}
		}
	default:
		l.fail(p, "", fmt.Errorf("%s is not a list of objects", describe(raw, f.secret)))
	}
	if name, text := l.lookup(p); text != "" {
		var err error
		var replaced bool
		if nodes, replaced, err = envList(f, nodes, text); err != nil {
			l.fail(p, "variable "+name, err)
			return
		}
		if replaced {
			l.Replaced = append(l.Replaced, p.key)
			quiet = !l.Thorough
		}
	}
	if len(nodes) == 0 {
		return
	}
	out := reflect.MakeSlice(f.typ, len(nodes), len(nodes))
	for i, n := range nodes {
		node, ok := n.(map[string]any)
		name := ""
		if f.named {
			name, _ = node["name"].(string)
		}
		c := p.element(i, name)
		if !ok && n != nil {
			l.fail(c, "", fmt.Errorf("%s is not an object", describe(n, true)))
			continue
		}
		l.section(c, out.Index(i), node, quiet)
	}
	v.Set(out)
}

// envList applies a list's variable: a JSON array replaces the list of the file, names add elements to a named one.
func envList(f field, nodes []any, text string) (out []any, replaced bool, err error) {
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		raw, err := parseJSON([]byte(text))
		if err == nil {
			raw, err = normalize(raw)
		}
		if err != nil {
			return nil, false, fmt.Errorf("the text is not a JSON array of objects: %w", err)
		}
		return raw.([]any), true, nil // it begins with [
	}
	if !f.named {
		return nil, false, errors.New("the text is not a JSON array of objects")
	}
	nodes = slices.Clone(nodes)
	for name := range strings.SplitSeq(text, " ") {
		if name != "" {
			nodes = append(nodes, map[string]any{"name": name})
		}
	}
	return nodes, false, nil
}

var varPattern = regexp.MustCompile(`\$\{([A-Za-z0-9]+_VAR_[A-Za-z0-9_]+)\}`)

// expandVars replaces ${<PREFIX>VAR_X} in a string map.
func (l *loader) expandVars(v reflect.Value) error {
	m := v.Interface().(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		var missing string
		m[key] = varPattern.ReplaceAllStringFunc(m[key], func(ref string) string {
			name := ref[2 : len(ref)-1]
			if !l.isVar(name) {
				return ref
			}
			text, ok := l.Source.Env[name]
			if !ok {
				missing = name
			}
			return text
		})
		if missing != "" {
			return fmt.Errorf("value of %q needs the environment variable %s, which is not set", Clip(key), Clip(missing))
		}
	}
	return nil
}

func (l *loader) isVar(name string) bool {
	return slices.ContainsFunc(l.Prefixes, func(p string) bool { return strings.HasPrefix(name, p+"VAR_") })
}

// kubernetesEnv matches variables that Kubernetes sets for a service with the name of the prefix.
var kubernetesEnv = regexp.MustCompile(`^(?:[A-Z0-9_]+_)?(PORT|SERVICE_)`)

func (l *loader) unknownEnv() []string {
	var out []string
	for name := range l.Source.Env {
		for _, prefix := range l.Prefixes {
			rest, ok := strings.CutPrefix(name, prefix)
			if ok && !l.known[rest] && !strings.HasPrefix(rest, "VAR_") && !kubernetesEnv.MatchString(rest) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (l *loader) checkFlags(dst any) {
	known := map[string]bool{}
	walk(path{}, root(dst), func(f leaf) {
		known[f.path.key] = true
		known[f.path.key+fileSuffix] = known[f.path.key+fileSuffix] || f.fromFile
	})
	for _, key := range slices.Sorted(maps.Keys(l.Flags)) {
		if !known[key] {
			l.errs = append(l.errs, fmt.Errorf("flag --%s: there is no such key", Clip(key)))
		}
	}
}
