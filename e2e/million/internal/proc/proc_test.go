//go:build linux

package proc

import (
	"io"
	"net"
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

// TestLoopback: what goes through the loopback device is counted.
func TestLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := ReadMachine().Loopback
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	const sent = 100_000
	go func() { _, _ = c.Write(make([]byte, sent)) }() // missing bytes show below
	if _, err := io.ReadFull(peer, make([]byte, sent)); err != nil {
		t.Fatal(err)
	}
	if n := ReadMachine().Loopback - before; n < sent {
		t.Errorf("%d bytes went through the loopback device, not %d", n, sent)
	}
}
