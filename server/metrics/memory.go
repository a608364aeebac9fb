package metrics

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
)

// memoryLimit is how many bytes the process may use at most: the least of the limits of its control group and of
// the memory of the machine. Without either (not on Linux) it is infinite.
func memoryLimit() float64 {
	limit := math.Inf(1)
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if n, bad := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil && bad == nil { // without a limit it is "max"
			limit = min(limit, n)
		}
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return limit
	}
	return min(limit, total(text))
}

// total is the line MemTotal of /proc/meminfo, in bytes.
func total(meminfo []byte) float64 {
	for s := bufio.NewScanner(bytes.NewReader(meminfo)); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			if n, err := strconv.ParseFloat(fields[1], 64); err == nil {
				return n * 1024
			}
		}
	}
	return math.Inf(1)
}
