//go:build linux

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cpuOf is to the nanosecond, without threads that have ended; 0 for a process that has.
func cpuOf(tb testing.TB, pid int) (sum time.Duration) {
	tb.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is well-formed
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil { // the thread may have ended
			ran, _, _ := strings.Cut(string(text), " ")
			sum += time.Duration(number(tb, ran))
		}
	}
	return sum
}

// memoryOf is in bytes: RSS counts shared memory in full, PSS its part of it.
func memoryOf(tb testing.TB, pid int) (rss, pss int64) {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); f[0] {
		case "Rss:":
			rss = number(tb, f[1]) << 10
		case "Pss:":
			pss = number(tb, f[1]) << 10
		}
	}
	return rss, pss
}

func wakeupsOf(tb testing.TB, pid int) (sum int64) {
	tb.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is well-formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread may have ended
		}
		if _, after, ok := strings.Cut(string(text), "\nvoluntary_ctxt_switches:"); ok {
			sum += number(tb, strings.Fields(after)[0])
		}
	}
	return sum
}
