//go:build linux

package packages

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const (
	patience = wait.Limit
	// exposure bounds the score of systemd-analyze, of 10; what is left are the network, which a server needs, and
	// /proc/sys, which tells the length of the queue of connections.
	exposure = 1.1
)

func (r root) verify() {
	r.t.Helper()
	// The root lacks the units of the package systemd.
	out, _ := exec.CommandContext(r.t.Context(), "systemd-analyze", "--root="+r.dir, "verify", "gyro.service").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "gyro.service") && !missing.MatchString(line) {
			r.t.Errorf("systemd-analyze verify: %s", line)
		}
	}
	report := run(r.t, "systemd-analyze", "--root="+r.dir, "--offline=yes", "--no-pager", "security", "gyro.service")
	m := score.FindStringSubmatch(report)
	if m == nil {
		r.t.Fatal(report)
	}
	got, err := strconv.ParseFloat(m[1], 64)
	if err != nil || got > exposure {
		r.t.Errorf("systemd-analyze security: %s, more than %.1f\n%s", m[1], exposure, report)
	}
	r.t.Logf("systemd-analyze security: %s of 10", m[1])
}

var (
	score   = regexp.MustCompile(`Overall exposure level for gyro.service: ([0-9.]+)`)
	missing = regexp.MustCompile(`Failed to (add dependency on|load|create) |not found`)
)

// unit joins settings that occur several times by a space.
func (r root) unit() map[string]string {
	r.t.Helper()
	settings := map[string]string{}
	for line := range strings.Lines(r.read("usr/lib/systemd/system/gyro.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = strings.TrimSpace(settings[key] + " " + value)
		}
	}
	return settings
}

// serve does what systemd does: checks, starts, reloads and stops the server, as its user and with the file of its
// variables. The server must make no call to the kernel that the unit forbids.
func (r root) serve() {
	r.t.Helper()
	settings := r.unit()
	if settings["User"] != "gyro" || settings["EnvironmentFile"] != "-/etc/gyro/gyro.env" {
		r.t.Fatalf("%q", settings)
	}
	secrets := strings.Fields(r.read("etc/gyro/gyro.env"))
	var key string
	for _, line := range secrets {
		if value, ok := strings.CutPrefix(line, "GYRO_HTTP_API_KEY="); ok {
			key = value
		}
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		r.t.Fatal(err)
	}
	as := append([]string{chroot, "--userspec=gyro:gyro", "--groups=", r.dir}, strings.Fields(settings["ExecStartPre"])...)
	check := exec.CommandContext(r.t.Context(), as[0], as[1:]...)
	check.Env = secrets
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		r.t.Fatalf("ExecStartPre: %v %s", err, out)
	}
	calls := r.path("calls")
	start := append([]string{"-f", "-qq", "-o", calls, chroot, "--userspec=gyro:gyro", "--groups=", r.dir}, strings.Fields(settings["ExecStart"])...)
	serve(r.t, exec.CommandContext(r.t.Context(), "strace", start...), secrets, key, func(pid int) {
		const shell = "/bin/sh"
		check, script, _ := strings.Cut(settings["ExecReload"], " "+shell+" -c ")
		if check != settings["ExecStartPre"] {
			r.t.Errorf("before a reload, the unit runs %s", check)
		}
		reload := exec.CommandContext(r.t.Context(), chroot, "--userspec=gyro:gyro", "--groups=", r.dir, shell, "-c", strings.Trim(script, "'"))
		reload.Env = []string{fmt.Sprintf("MAINPID=%d", pid)}
		if out, err := reload.CombinedOutput(); err != nil {
			r.t.Errorf("ExecReload: %v %s", err, out)
		}
	})
	r.allowed(r.read("calls"), strings.Fields(settings["SystemCallFilter"]))
}

func (r root) allowed(trace string, filter []string) {
	r.t.Helper()
	if len(filter) != 3 || filter[0] != "@system-service" {
		r.t.Fatalf("%q", filter)
	}
	allowed := callsOf(r.t, filter[0])
	for _, set := range filter[1:] {
		for name := range callsOf(r.t, strings.TrimPrefix(set, "~")) {
			delete(allowed, name)
		}
	}
	begin := strings.Index(trace, `execve("/usr/bin/gyro"`)
	if begin < 0 {
		r.t.Fatal("strace has not seen the start of the server")
	}
	seen := map[string]bool{}
	for _, m := range call.FindAllStringSubmatch(trace[begin:], -1) {
		seen[m[1]] = true
	}
	if len(seen) < 20 {
		r.t.Errorf("strace has seen %d calls only", len(seen))
	}
	for name := range seen {
		if !allowed[name] {
			r.t.Errorf("the unit forbids %s, which the server calls", name)
		}
	}
}

var call = regexp.MustCompile(`(?m)^\d+ +(?:<\.\.\. )?([a-z][a-z0-9_]*)[( ]`)

func callsOf(t *testing.T, set string) map[string]bool {
	t.Helper()
	calls := map[string]bool{}
	for _, line := range strings.Split(run(t, "systemd-analyze", "--no-pager", "syscall-filter", set), "\n")[1:] {
		switch name := strings.TrimSpace(line); {
		case strings.HasPrefix(name, "@"):
			for inner := range callsOf(t, name) {
				calls[inner] = true
			}
		case name != "" && !strings.HasPrefix(name, "#"):
			calls[name] = true
		}
	}
	return calls
}

// serve runs a server on free ports: it has to be well, to publish with the key, to reload if reload asks it to, and to
// end without an error.
func serve(t *testing.T, cmd *exec.Cmd, env []string, key string, reload func(pid int)) {
	t.Helper()
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = porttest.Free(); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = slices.Concat(cmd.Env, env, []string{
		"GYRO_HTTP_SERVER_ADDRESS=127.0.0.1", fmt.Sprintf("GYRO_HTTP_SERVER_PORT=%d", ports[0]), "GYRO_HTTP_SERVER_INTERNAL_ADDRESS=127.0.0.1",
		fmt.Sprintf("GYRO_HTTP_SERVER_INTERNAL_PORT=%d", ports[1]), "GYRO_HEALTH_ENABLED=true", "GYRO_SHUTDOWN_DRAIN_TIME=0s",
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	status := func(path, body string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body == "" {
			req.Method = http.MethodGet
		}
		req.Header.Set("X-API-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	wait.Until(t, "the server is well", func() bool { return status("/health/ready", "") == http.StatusOK })
	if got := status("/api/publish", `{"channel":"news","data":{}}`); got != http.StatusOK {
		t.Errorf("publish: status %d", got)
	}
	pid := server(t, cmd.Process.Pid)
	if reload != nil {
		reload(pid)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v\n%s", err, log.String())
		}
	case <-ctx.Done():
		t.Fatal("the server does not end")
	}
	if reload != nil && !strings.Contains(log.String(), "configuration reloaded") {
		t.Errorf("no reload\n%s", log.String())
	}
}

func server(t *testing.T, pid int) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	if child, err := strconv.Atoi(strings.TrimSpace(string(children))); err == nil {
		return child
	}
	return pid
}
