package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used so far.
type usage struct {
	cpu    time.Duration // user and system, of all threads; to 10 ms
	memory int64         // resident bytes
}

// tick is the unit of times in /proc (USER_HZ, which is 100 on all systems that Go supports).
const tick = 10 * time.Millisecond

// readUsage reads the usage of a process from /proc. If pid is 0, it returns nil.
func readUsage(pid int) (*usage, error) {
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
	return &usage{cpu: time.Duration(values[0]+values[1]) * tick, memory: values[2] * int64(os.Getpagesize())}, nil
}

// since describes what the server has used since before was read, in all and for each of n
// connections or messages. It is nil if the server's process is not known.
func (r *run) since(before *usage, n uint64, took time.Duration) (*Usage, error) {
	now, err := readUsage(r.target.PID)
	if before == nil || err != nil {
		return nil, err
	}
	u := &Usage{CPUSeconds: seconds(now.cpu - before.cpu), MemoryBytes: now.memory, GrownBytes: now.memory - before.memory}
	if took > 0 {
		u.CPUPercent = round(100 * (now.cpu - before.cpu).Seconds() / took.Seconds())
	}
	if n > 0 {
		u.CPUMicrosEach = round(float64((now.cpu - before.cpu).Microseconds()) / float64(n))
		u.BytesEach = u.GrownBytes / int64(n)
	}
	return u, nil
}
