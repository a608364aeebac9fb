package logs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestLogger: levels and members of JSON lines.
func TestLogger(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"trace": "debug info warn error fatal", "DEBUG": "debug info warn error fatal", "info": "info warn error fatal", "Warn": "warn error fatal",
		"error": "error fatal", "fatal": "fatal", "none": "", "loud": "warn info warn error fatal",
	} {
		file := filepath.Join(t.TempDir(), "log")
		var got []string
		for range 2 { // the file is appended to
			log, closeLog, err := New(&config.Log{Level: level, File: file}, NewRecent())
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("m", "k", "v")
			log.Info("m", "k", "v")
			log.Warn("m", "k", "v")
			log.Error("m", "k", "v")
			log.Log(t.Context(), LevelFatal, "m", "k", "v")
			if err := closeLog(); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(string(must(os.ReadFile(file)))) {
			var m map[string]string
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			if _, err := time.Parse(time.RFC3339, m["time"]); err != nil || m["message"] == "" || m["k"] != "v" && m["level"] != "warn" {
				t.Errorf("line %s", line)
			}
			got = append(got, m["level"])
		}
		if text := strings.Join(got, " "); text != strings.TrimSpace(want+" "+want) {
			t.Errorf("%s: got %q, want %q twice", level, text, want)
		}
	}
	if _, _, err := New(&config.Log{File: t.TempDir()}, NewRecent()); err == nil || !strings.Contains(err.Error(), "log.file") {
		t.Errorf("a folder as file: %v", err)
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := To(&out, "info", true)
	log.Debug("not shown")
	log.With("a", 1).WithGroup("g").Warn("look out", "time", "x y")
	line := out.String()
	if !strings.HasSuffix(line, "\x1b[33mWARN \x1b[0m look out a=1 g.time=\"x y\"\n") {
		t.Errorf("got %q", line)
	}
	if IsTerminal(must(os.Open(os.DevNull))) {
		t.Error("the null device is no terminal")
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	for name, want := range levels {
		if got, err := Level(strings.ToUpper(name)); got != want || err != nil {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if _, err := Level("loud"); err == nil || !strings.Contains(err.Error(), `log.level: "loud"`) {
		t.Errorf("got %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestFileMode: a log has users, channels and addresses, which are not for everybody on the machine.
func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	_, closeLog, err := New(&config.Log{File: path, Level: "info"}, NewRecent())
	if err != nil {
		t.Fatal(err)
	}
	if err := closeLog(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
