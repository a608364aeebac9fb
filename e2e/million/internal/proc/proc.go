//go:build linux

// Package proc reads the usage of processes and of the machine from /proc.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc (USER_HZ, which is 100 on all systems that Go supports).
const tick = 10 * time.Millisecond

// CPU is the user and system time of a process, to 10 ms; 0 if it has ended.
func CPU(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the command, in parentheses, may have anything in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	return time.Duration(number(fields[11])+number(fields[12])) * tick
}

// Memory of a process in bytes.
type Memory struct {
	RSS int64 `json:"rss"` // resident
	PSS int64 `json:"pss"` // resident, with its part of shared memory
}

func (m *Memory) Add(o Memory) {
	m.RSS += o.RSS
	m.PSS += o.PSS
}

// MemoryOf costs the kernel a walk through the process's pages.
func MemoryOf(pid int) Memory {
	values := keyed(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	return Memory{RSS: values["Rss"] << 10, PSS: values["Pss"] << 10}
}

type Machine struct {
	Busy      time.Duration `json:"busy"`      // of all processors since the start, in user and kernel
	Available int64         `json:"available"` // bytes of memory that programs could have
	Slab      int64         `json:"slab"`      // bytes of the kernel's objects, such as sockets
	Sockets   int64         `json:"sockets"`   // TCP sockets that are there
	TCP       int64         `json:"tcp"`       // bytes of TCP's buffers
	Loopback  int64         `json:"loopback"`  // bytes that went through the loopback device since the start, headers included
}

func ReadMachine() Machine {
	memory := keyed("/proc/meminfo")
	m := Machine{Available: memory["MemAvailable"] << 10, Slab: memory["Slab"] << 10, Loopback: keyed("/proc/net/dev")["lo"]}
	if first, _, ok := strings.Cut(text("/proc/stat"), "\n"); ok {
		for i, field := range strings.Fields(first) {
			switch i {
			case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq
				m.Busy += time.Duration(number(field)) * tick
			}
		}
	}
	for line := range strings.Lines(text("/proc/net/sockstat")) {
		if fields := strings.Fields(line); len(fields) > 10 && fields[0] == "TCP:" {
			m.Sockets, m.TCP = number(fields[2]), number(fields[10])*int64(os.Getpagesize())
		}
	}
	return m
}

// Available is the memory that programs could have, in bytes.
func Available() int64 { return keyed("/proc/meminfo")["MemAvailable"] << 10 }

// Setting reads the first number of a file of /proc/sys.
func Setting(name string) (int64, bool) {
	fields := strings.Fields(text("/proc/sys/" + name))
	if len(fields) == 0 {
		return 0, false
	}
	v, err := strconv.ParseInt(fields[0], 10, 64)
	return v, err == nil
}

// Places is the size of the kernel's table of TCP connections; 0 before Linux 6.1.
func Places() int64 {
	n, _ := Setting("net/ipv4/tcp_ehash_entries")
	return max(n, -n) // it is negative for the table of the machine in a network that has none of its own
}

// text returns "" if the file cannot be read, as of a process that has ended.
func text(file string) string {
	data, _ := os.ReadFile(file)
	return string(data)
}

// keyed reads lines of a name, a colon and numbers.
func keyed(file string) map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(text(file)) {
		name, rest, ok := strings.Cut(line, ":")
		if fields := strings.Fields(rest); ok && len(fields) > 0 {
			values[strings.TrimSpace(name)] = number(fields[0])
		}
	}
	return values
}

func number(text string) int64 {
	v, _ := strconv.ParseInt(text, 10, 64) // other text counts as 0
	return v
}
