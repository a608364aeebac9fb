package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testChart writes a chart with one template.
func testChart(t *testing.T, template string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml":             "name: c\nappVersion: v1\n",
		"values.yaml":            "count: 1\nname: ''\nlist: []\nsection: {a: 1}\nconfig: {}\n",
		"templates/_helpers.tpl": `{{- define "who" -}}{{ .Release.Name }}-{{ .Chart.AppVersion }}{{- end -}}`,
		"templates/NOTES.txt":    "notes",
		"templates/none.yaml":    "{{ if false }}x{{ end }}",
		"templates/one.yaml":     template,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestRender(t *testing.T) {
	chart := testChart(t, `a: {{ include "who" . | quote }}
n: {{ add .Values.count 2 }}
{{- with .Values.config }}
{{ toYaml . | nindent 2 }}
{{- end }}
`)
	values := filepath.Join(chart, "more.yaml")
	if err := os.WriteFile(values, []byte("count: 5\nconfig: {x: {z: [1]}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"-f", values, "-set", "section.a=7", "r", chart}, &out); err != nil {
		t.Fatal(err)
	}
	const want = "a: \"r-v1\"\nn: 7\n\n  x:\n    z:\n    - 1\n"
	if got := out.String(); got != "---\n# Source: c/templates/one.yaml\n"+want {
		t.Errorf("%q", got)
	}
	folder := t.TempDir()
	stale := filepath.Join(folder, "stale.yaml")
	if err := os.WriteFile(stale, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-f", values, "-out", folder, "r", chart}, &out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "one.yaml"))
	if err != nil || !strings.HasSuffix(string(got), "---\n"+want) {
		t.Errorf("%v %q", err, got)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("a file of a template that is gone is still there")
	}
}

func TestErrors(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	for _, tt := range []struct{ template, values, set, want string }{
		{"", "cuont: 5", "", "no value cuont"},
		{"", "section: {b: 5}", "", "no value section.b"},
		{"", "count: 1\ncount: 2", "", "already set"},
		{"", "", "section.b=1", "no such value"},
		{"", "", "no.b=1", "no object no"},
		{"", "", "count", "not key=value"},
		{"", "", "count=[", "count"},
		{"{{", "", "", "one.yaml"},
		{"{{ .Values.absent }}", "", "", "absent"},
		{`{{ required "name is needed" .Values.name }}`, "", "", "name is needed"},
	} {
		if err := os.WriteFile(values, []byte(tt.values), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"-f", values}
		if tt.set != "" {
			args = append(args, "-set", tt.set)
		}
		err := run(append(args, "r", testChart(t, tt.template)), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if err := run([]string{"r"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Error(err)
	}
	if err := run([]string{"r", t.TempDir()}, &bytes.Buffer{}); err == nil {
		t.Error("a folder that is no chart")
	}
}
