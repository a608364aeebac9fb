package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"dario.cat/mergo"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

type chart struct {
	folder       string
	meta, values map[string]any
}

func load(folder string) (*chart, error) {
	c := &chart{folder: folder}
	var err error
	if c.meta, err = readYAML(filepath.Join(folder, "Chart.yaml")); err != nil {
		return nil, err
	}
	c.values, err = readYAML(filepath.Join(folder, "values.yaml"))
	return c, err
}

func readYAML(name string) (map[string]any, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (c *chart) addValues(name string) error {
	more, err := readYAML(name)
	if err != nil {
		return err
	}
	if err := c.known("", c.values, more); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return mergo.Merge(&c.values, more, mergo.WithOverride)
}

// free are the objects whose keys the chart does not define.
var free = map[string]bool{"config": true, "resources": true, "secrets": true, "nodeSelector": true, "annotations": true, "affinity": true, "labels": true}

// known fails for values that the chart does not have. Helm ignores them, which hides misspelled
// keys.
func (c *chart) known(path string, has, given map[string]any) error {
	for key, value := range given {
		old, ok := has[key]
		if !ok {
			return fmt.Errorf("the chart has no value %s%s", path, key)
		}
		section, isSection := old.(map[string]any)
		if sub, ok := value.(map[string]any); ok && isSection && !free[key] {
			if err := c.known(path+key+".", section, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *chart) set(assignment string) error {
	path, text, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("-set %s is not key=value", assignment)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("-set %s: %w", path, err)
	}
	keys := strings.Split(path, ".")
	m := c.values
	for _, key := range keys[:len(keys)-1] {
		if m, ok = m[key].(map[string]any); !ok {
			return fmt.Errorf("-set %s: there is no object %s", path, key)
		}
	}
	last := keys[len(keys)-1]
	if _, ok := m[last]; !ok {
		return fmt.Errorf("-set %s: the chart has no such value", path)
	}
	m[last] = value
	return nil
}

func (c *chart) render(release string) ([]file, error) {
	root := template.New("").Option("missingkey=error")
	root.Funcs(sprig.TxtFuncMap()).Funcs(template.FuncMap{
		"toYaml": func(v any) (string, error) {
			data, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(data), "\n"), err
		},
		"toPrettyJson": func(v any) (string, error) {
			data, err := json.MarshalIndent(v, "", "  ")
			return string(data), err
		},
		"include": func(name string, data any) (string, error) {
			var b bytes.Buffer
			err := root.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"required": func(message string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(message)
			}
			return v, nil
		},
	})
	names, err := filepath.Glob(filepath.Join(c.folder, "templates", "*"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no templates", c.folder)
	}
	if _, err := root.ParseFiles(names...); err != nil {
		return nil, err
	}
	slices.Sort(names)
	data := map[string]any{
		"Values": c.values, "Chart": titled(c.meta),
		"Release": map[string]any{"Name": release, "Namespace": "default", "Service": "Helm"},
	}
	var files []file
	for _, name := range names {
		base := filepath.Base(name)
		if !strings.HasSuffix(base, ".yaml") && base != "NOTES.txt" {
			continue
		}
		var b bytes.Buffer
		if err := root.ExecuteTemplate(&b, base, data); err != nil {
			return nil, err
		}
		text := strings.TrimSpace(b.String())
		if text != "" && base != "NOTES.txt" {
			files = append(files, file{base, strings.TrimPrefix(text, "---\n") + "\n"})
		}
	}
	return files, nil
}

func titled(meta map[string]any) map[string]any {
	out := make(map[string]any, len(meta))
	for key, value := range meta {
		out[strings.ToUpper(key[:1])+key[1:]] = value
	}
	return out
}
