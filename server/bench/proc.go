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
	u := new(usage)
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return nil, fmt.Errorf("pid: process %d: %w", pid, err)
	}
	// The name of the command, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("pid: %sstat: %d fields", dir, len(fields))
	}
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("pid: %sstat: %w", dir, err)
		}
		u.cpu += time.Duration(n) * tick
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return nil, fmt.Errorf("pid: process %d: %w", pid, err)
	}
	_, after, _ := strings.Cut(string(status), "\nVmRSS:")
	text, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	kilobytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("pid: process %d has no memory: it has ended", pid)
	}
	u.memory = kilobytes << 10
	return u, nil
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
