package logs

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
)

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReopen: the file is opened anew at once when it is told to, and within a second when it was renamed.
func TestReopen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename files that are open")
	}
	path := filepath.Join(t.TempDir(), "log")
	synctest.Test(t, func(t *testing.T) {
		log, closeLog, err := New(&config.Log{File: path, Level: "info"}, NewRecent())
		if err != nil {
			t.Fatal(err)
		}
		say := func(message string) {
			t.Helper()
			log.Info(message)
			if err := logging.Flush(log); err != nil {
				t.Fatal(err)
			}
		}
		say("before")
		move := func(to string) {
			t.Helper()
			if err := os.Rename(path, to); err != nil {
				t.Fatal(err)
			}
		}
		move(path + ".1")
		say("renamed") // still to the old file
		if there, err := Of(log).Reopen(); !there || err != nil {
			t.Errorf("%v %v", there, err)
		}
		say("told")
		move(path + ".2")
		time.Sleep(lookAfter)
		say("seen")
		if err := closeLog(); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{path + ".1": "before renamed", path + ".2": "told", path: "seen"} {
			got := text(t, name)
			for _, message := range []string{"before", "renamed", "told", "seen"} {
				if strings.Contains(got, `"message":"`+message+`"`) != strings.Contains(want, message) {
					t.Errorf("%s has %s, want %s", name, got, want)
				}
			}
		}
	})
	if there, err := Of(To(os.Stderr, "info", false)).Reopen(); there || err != nil {
		t.Errorf("without a file: %v %v", there, err)
	}
}

// TestFullDisk: a file that takes no bytes loses lines, of which stderr and operators hear once, and the log when it takes some again.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	path := filepath.Join(t.TempDir(), "log")
	synctest.Test(t, func(t *testing.T) {
		recent := NewRecent()
		log, closeLog, err := New(&config.Log{File: path, Level: "info"}, recent)
		if err != nil {
			t.Fatal(err)
		}
		to := Of(log).file
		var stderr strings.Builder
		to.lost = slog.New(recent.Handler(To(&stderr, "info", false).Handler()))
		flush := func() {
			t.Helper()
			if err := logging.Flush(log); err != nil {
				t.Fatal(err)
			}
		}
		kept := to.f
		to.f = full
		for range 5 {
			log.Info("lost")
			flush()
		}
		if strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), `"key":"log.file"`) || !strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
			t.Errorf("stderr: %s", stderr.String())
		}
		if n := logging.Dropped(log); n != 5 {
			t.Errorf("%d lines are counted", n)
		}
		to.f = kept
		log.Info("written")
		flush()
		if err := closeLog(); err != nil {
			t.Error(err)
		}
		if got := text(t, path); strings.Contains(got, `"message":"lost"`) || !strings.Contains(got, `"message":"written"`) || !strings.Contains(got, `"lost":5`) {
			t.Errorf("the file has %s", got)
		}
		lines, _, _ := recent.Since(0)
		if len(lines) != 2 || !strings.Contains(string(lines[0]), "log.file") || !strings.Contains(string(lines[1]), `"lost":5`) {
			t.Errorf("operators see %s", lines)
		}
	})
}

// TestTornLine: a line of which a part was written does not spoil the next one.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := openFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(`{"half`)); err != nil {
		t.Fatal(err)
	}
	f.torn = true // as after a write that took a part
	if _, err := f.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := text(t, path); got != "{\"half\n{}\n" {
		t.Errorf("%q", got)
	}
	if _, err := f.Write([]byte("{}\n")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestFormats: text for people has no colours in a file, and JSON is what auto makes without a terminal.
func TestFormats(t *testing.T) {
	for format, want := range map[string]string{"text": " INFO  hello k=v", "json": `"message":"hello","k":"v"`, "auto": `"message":"hello","k":"v"`} {
		path := filepath.Join(t.TempDir(), "log")
		log, closeLog, err := New(&config.Log{File: path, Level: "info", Format: format}, NewRecent())
		if err != nil {
			t.Fatal(err)
		}
		log.Info("hello", "k", "v")
		if err := closeLog(); err != nil {
			t.Fatal(err)
		}
		got := text(t, path)
		if !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q", format, got)
		}
		if stamp, _, _ := strings.Cut(got, " "); format == "text" {
			if _, err := time.Parse(time.RFC3339, stamp); err != nil {
				t.Errorf("time of text in a file: %v", err)
			}
		}
	}
}
