package metrics

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// memoryLimit is the most bytes that the process may use: the least of the limits of its control groups and the memory
// of the machine; infinite if neither is known (not on Linux).
func memoryLimit() float64 { return limitOf(os.DirFS("/")) }

func limitOf(root fs.FS) float64 {
	limit := math.Inf(1)
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		own = nil // not on Linux
	}
	for _, file := range limitFiles(string(own)) {
		text, err := fs.ReadFile(root, file)
		if n, bad := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil && bad == nil { // without a limit it is "max"
			limit = min(limit, n)
		}
	}
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return limit
	}
	return min(limit, total(text))
}

// limitFiles are the files with limits of the groups that /proc/self/cgroup names and of the groups around them. In a
// container, the outermost group is the container's, and files of others are not there.
func limitFiles(own string) []string {
	const (
		unified, file     = "sys/fs/cgroup", "memory.max"                   // version 2
		memory, olderFile = "sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	)
	files := []string{path.Join(unified, file), path.Join(memory, olderFile)}
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		folder, name := unified, file
		if controllers := strings.Split(parts[1], ","); slices.Contains(controllers, "memory") {
			folder, name = memory, olderFile
		} else if parts[1] != "" {
			continue
		}
		for group := path.Clean("/" + parts[2]); group != "/"; group = path.Dir(group) {
			files = append(files, path.Join(folder, group, name))
		}
	}
	return files
}

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
