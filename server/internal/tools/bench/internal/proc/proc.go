// Package proc reads the use of CPU and memory by a process on this machine.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the use of CPU and memory by a process since its start.
type Usage struct {
	CPU    time.Duration // user and system, of all threads; to 10 ms
	Memory int64         // resident bytes
}

// USER_HZ is 100 on all systems that Go supports.
const tick = 10 * time.Millisecond

// Read reads /proc; nil for pid 0.
func Read(pid int) (*Usage, error) {
	if pid == 0 {
		return nil, nil
	}
	file := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("pid: process %d: %w", pid, err)
	}
	// The name of the command, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return nil, fmt.Errorf("pid: %s: %d fields", file, len(fields))
	}
	var values [3]int64
	for i, at := range [...]int{11, 12, 21} { // utime, stime, rss in pages
		if values[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return nil, fmt.Errorf("pid: %s: %w", file, err)
		}
	}
	if values[2] == 0 {
		return nil, fmt.Errorf("pid: process %d has no memory: it has ended", pid)
	}
	return &Usage{CPU: time.Duration(values[0]+values[1]) * tick, Memory: values[2] * int64(os.Getpagesize())}, nil
}
