//go:build linux

package packages

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// boot starts systemd in a root, in namespaces of its own, as a container would. $1 is the folder.
const boot = `
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/tmp"
cd "$1"
pivot_root . mnt # after a chroot, units could have no users of their own
exec chroot . sh -c 'umount -l /mnt; exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system'
`

type machine struct {
	root
	pid string // of systemd, outside
}

func newMachine(t *testing.T) machine {
	t.Helper()
	r := newRoot(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--net", "--kill-child",
		"sh", "-ec", boot, "sh", r.dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // which ends systemd and all of its units
		_ = cmd.Wait()
	})
	m := machine{root: r}
	wait.Until(t, "systemd runs", func() bool {
		out, err := exec.CommandContext(t.Context(), "pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
		if err != nil {
			return false
		}
		m.pid = strings.TrimSpace(string(out))
		state, _ := m.try("systemctl", "is-system-running") // degraded: some unit of Debian does not start in a container
		return state == "running" || state == "degraded"
	})
	return m
}

func (m machine) try(command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	args := append([]string{"-t", m.pid, "-m", "-p", "-n", "-u", "-i", "-C"}, command...)
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m machine) do(command ...string) string {
	m.t.Helper()
	out, err := m.try(command...)
	if err != nil {
		journal, _ := m.try("journalctl", "-n", "50", "--no-pager")
		m.t.Fatalf("%s: %v\n%s\n%s", strings.Join(command, " "), err, out, journal)
	}
	return out
}

func (m machine) property(name string) string {
	m.t.Helper()
	return m.do("systemctl", "show", "gyro", "-P", name)
}

// TestSystemd: the unit starts, reloads, restarts after a crash, stops and goes under a real systemd.
func TestSystemd(t *testing.T) {
	given(t, "E2E_SYSTEMD")
	m := newMachine(t)
	m.copyIn(artefact(t, ".deb"), "gyro.deb")
	m.do("dpkg", "-i", "/gyro.deb")
	m.do("systemctl", "enable", "--now", "gyro")
	if got := m.do("systemctl", "is-active", "gyro"); got != "active" {
		t.Fatal(got)
	}
	first := m.property("MainPID")
	if user := m.do("ps", "-o", "user=", "-p", first); user != "gyro" {
		t.Errorf("the server runs as %s", user)
	}
	if score := m.do("systemd-analyze", "security", "--no-pager", "gyro"); !strings.Contains(score, "Overall exposure level for gyro.service: 1.") {
		t.Error(score[max(0, len(score)-200):])
	}
	m.do("systemctl", "reload", "gyro")
	if journal := m.do("journalctl", "-u", "gyro", "--no-pager"); !strings.Contains(journal, "configuration reloaded") {
		t.Error(journal)
	}
	// A file that is wrong fails the reload, and the server goes on.
	m.do("sh", "-c", `cp -a /etc/gyro/config.json /etc/gyro/right && echo '{"client":{"channel_limit":-1}}' > /etc/gyro/config.json && ! systemctl reload gyro`)
	m.do("mv", "/etc/gyro/right", "/etc/gyro/config.json")
	if got := m.property("MainPID"); got != first {
		t.Errorf("after a reload that failed the server is %s, not %s", got, first)
	}
	m.do("kill", "-KILL", first)
	wait.Until(t, "the server runs again", func() bool {
		now := m.property("MainPID")
		return now != first && now != "0" && m.property("ActiveState") == "active"
	})
	m.do("systemctl", "stop", "gyro")
	if got := m.property("Result"); got != "success" {
		t.Errorf("stopped with %s", got)
	}
	m.do("dpkg", "-P", "gyro")
	m.gone("etc/gyro")
	if out, err := m.try("systemctl", "cat", "gyro"); err == nil {
		t.Errorf("the unit is still there: %s", out)
	}
}
