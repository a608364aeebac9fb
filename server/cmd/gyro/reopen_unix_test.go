//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestReopenLog: SIGUSR1 opens log.file anew, and without one it does not end the server.
func TestReopenLog(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	start := func(args ...string) *process {
		return launch(t, dir, nil, "", append([]string{"-c", "", "-a", "127.0.0.1", "-p", port, "--health.enabled"}, args...)...)
	}
	has := func(file, text string) func() bool {
		return func() bool {
			data, err := os.ReadFile(filepath.Join(dir, file))
			return err == nil && strings.Contains(string(data), text)
		}
	}
	p := start("--log.file", "log")
	wait.Until(t, "the start", has("log", "gyro is running"))
	if err := os.Rename(filepath.Join(dir, "log"), filepath.Join(dir, "log.1")); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGUSR1)
	wait.Until(t, "a line in the new file", has("log", "log.file is opened anew"))
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !has("log", `"message":"stopped"`)() || has("log.1", "opened anew")() {
		t.Errorf("exit code %d", code)
	}
	p = start()
	p.await("gyro is running")
	p.signal(syscall.SIGUSR1)
	p.await("SIGUSR1 opens log.file anew, and there is none")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
