package main

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// unit reads deploy/systemd/gyro.service.
func unit(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("../../../deploy/systemd/gyro.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	settings := map[string]string{} // of settings that are there several times, all values in lines
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = strings.TrimPrefix(settings[key]+"\n"+value, "\n")
		}
	}
	return settings
}

// TestSystemdUnit does what the unit says: its commands check, run, reload and end a server.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	settings := unit(t)
	dir := t.TempDir()
	args := func(key string) []string {
		t.Helper()
		program, rest, _ := strings.Cut(settings[key], " ")
		if program != "/usr/bin/gyro" {
			t.Fatalf("%s=%s", key, settings[key])
		}
		return strings.Fields(strings.ReplaceAll(rest, settings["WorkingDirectory"], dir))
	}
	fail(t, dir, "config.json", args("ExecStartPre")...)
	write(t, dir, "config.json", `{"admin":{"enabled":true}}`)
	fail(t, dir, "admin.enabled", args("ExecStartPre")...)
	port := freePort(t)
	write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1","port":`+port+`},"channel":{"namespaces":[{"name":"chat"}]}}`)
	if out := succeed(t, dir, args("ExecStartPre")...); out != "" {
		t.Error(out)
	}
	// What systemd hears of a unit of this type.
	address := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := func(want string) {
		t.Helper()
		message := make([]byte, 100)
		if n, err := socket.Read(message); err != nil || string(message[:n]) != want {
			t.Errorf("systemd hears %q, want %q: %v", message[:n], want, err)
		}
	}
	p := launch(t, dir, []string{"NOTIFY_SOCKET=" + address}, "gyro is running", args("ExecStart")...)
	check, reload, _ := strings.Cut(settings["ExecReload"], "\n")
	if check != settings["ExecStartPre"] || reload != "/bin/sh -c 'kill -HUP $MAINPID'" || settings["Type"] != "notify" {
		t.Errorf("reload by %s, type %s", settings["ExecReload"], settings["Type"])
	}
	told("READY=1")
	p.signal(syscall.SIGHUP)
	p.await("configuration reloaded")
	p.signal(syscall.SIGTERM) // the default of KillSignal
	told("STOPPING=1")
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.text())
	}
	stop, err := time.ParseDuration(settings["TimeoutStopSec"])
	if err != nil || stop < config.DefaultConfig().Shutdown.Timeout+5*time.Second {
		t.Errorf("TimeoutStopSec=%s is not well above shutdown.timeout", settings["TimeoutStopSec"])
	}
}
