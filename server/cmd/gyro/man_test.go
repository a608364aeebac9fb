package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestManual: the page has every command and every flag that help shows, and what reads manual pages accepts it.
func TestManual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := succeed(t, dir, "man")
	plain := strings.ReplaceAll(page, `\-`, "-")
	for _, c := range root().Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if !strings.Contains(plain, "\n.SS gyro "+c.Name()) {
			t.Errorf("the page lacks gyro %s", c.Name())
		}
	}
	for _, want := range []string{"--http_server.port", "--from-centrifugo", "SIGUSR1", ".TH GYRO 1"} {
		if !strings.Contains(plain, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".T") && !strings.HasPrefix(line, ".S") && !strings.HasPrefix(line, ".B ") &&
			strings.TrimSpace(line) != ".br" && strings.TrimSpace(line) != ".nf" && strings.TrimSpace(line) != ".fi" && strings.TrimSpace(line) != ".sp" && strings.TrimSpace(line) != ".PP" {
			t.Errorf("a text is a request: %s", line)
		}
	}
	if _, err := exec.LookPath("groff"); err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), "groff", "-Kutf8", "-man", "-Tutf8", "-ww")
	cmd.Stdin = strings.NewReader(page)
	out, complaints, code := outcome(t, cmd)
	if code != 0 || !strings.Contains(out, "SIGUSR1") || complaints != "" {
		t.Errorf("groff: exit code %d\n%s", code, complaints)
	}
}

func TestRoff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a-b":         `a\-b`,
		".x\n'y":      "\\&.x\n\\&'y",
		"a\n\nb\n":    "a\n.sp\nb",
		`C:\x`:        `C:\ex`,
		"plain words": "plain words",
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
