//go:build linux

package proc

import (
	"os"
	"os/exec"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestProcess: a process that works uses CPU and memory, and none when it has ended.
func TestProcess(t *testing.T) {
	work := exec.Command("sh", "-c", "while :; do :; done")
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	pid := work.Process.Pid
	wait.Until(t, "CPU of a process that works", func() bool { return CPU(pid) > 0 })
	if m := MemoryOf(pid); m.RSS <= 0 || m.PSS <= 0 || m.PSS > m.RSS {
		t.Errorf("%+v", m)
	}
	_ = work.Process.Kill()
	_ = work.Wait() // it was killed
	if CPU(pid) != 0 || MemoryOf(pid) != (Memory{}) {
		t.Error("a process that has ended uses something")
	}
}

// TestMachine compares what is read with what must be.
func TestMachine(t *testing.T) {
	m := ReadMachine()
	if m.Busy <= 0 || m.Available <= 0 || m.Slab <= 0 || m.Sockets < 0 || Available() <= 0 {
		t.Errorf("%+v", m)
	}
	if most, ok := Setting("fs/file-max"); !ok || most <= 0 {
		t.Errorf("fs.file-max is %d", most)
	}
	if _, ok := Setting("nothing"); ok {
		t.Error("a setting that is not there was read")
	}
	if _, told := Setting("net/ipv4/tcp_ehash_entries"); (Places() > 0) != told {
		t.Errorf("the table of connections has %d places", Places())
	}
	if CPU(os.Getpid()) < 0 {
		t.Error("CPU is negative")
	}
}
