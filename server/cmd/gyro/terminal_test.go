//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// question is what asks a terminal something: for its colours, the place of the cursor, what it is.
var question = regexp.MustCompile(`\x1b\][0-9;]*\?|\x1b\[[0-9?;>=]*(n|c|\$p|u)`)

// onTerminal runs a command on a terminal that answers nothing, and returns what the terminal gets.
func onTerminal(t *testing.T, cmd *exec.Cmd) (shown *screen, terminal *os.File, end func() string) {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	shown = new(screen)
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(shown, terminal) // until the command has ended
		close(read)
	}()
	return shown, terminal, func() string {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", cmd.Args[1:], err)
		}
		<-read
		return shown.text.String()
	}
}

// TestTerminal: no command asks the terminal anything, which some do not answer, and NO_COLOR has no escape sequences at all.
func TestTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "config.json", `{}`)
	for _, env := range [][]string{{"TERM=xterm-256color"}, {"TERM=xterm-256color", "NO_COLOR=1"}} {
		for _, args := range [][]string{{"version"}, {"--help"}, {"defaultconfig", "-d"}, {"checkconfig", "--json"}, {"health", "--help"}} {
			_, _, end := onTerminal(t, command(t, dir, env, args...))
			if got := end(); got == "" || strings.Contains(got, "\x1b") {
				t.Errorf("%q %q: %q", env, args, got)
			}
		}
	}
}

// TestServerOnTerminal: what a server and gyro dev show on a terminal, as text in colours, as text without, or as JSON.
func TestServerOnTerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env, args []string
		want      string
		colours   bool
	}{
		"colours": {nil, nil, "\x1b[32mINFO \x1b[0m gyro is running", true},
		"text":    {[]string{"NO_COLOR=1"}, nil, " INFO  gyro is running", false},
		"JSON":    {nil, []string{"--log.format", "json"}, `"message":"gyro is running"`, false},
		"dev":     {[]string{"NO_COLOR=1"}, []string{"dev"}, "Press Ctrl-C to stop.", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "config.json", `{"http_server":{"address":"127.0.0.1"}}`)
			cmd := command(t, dir, append(tt.env, "TERM=xterm-256color"), append(tt.args, "-p", freePort(t))...)
			shown, _, end := onTerminal(t, cmd)
			wait.Until(t, "the start", func() bool { return shown.has(regexp.MustCompile(regexp.QuoteMeta(tt.want))) })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			got := end()
			if q := question.FindString(got); q != "" {
				t.Errorf("the terminal is asked %q", q)
			}
			if strings.Contains(got, "\x1b") != tt.colours {
				t.Errorf("%q", got)
			}
		})
	}
}
