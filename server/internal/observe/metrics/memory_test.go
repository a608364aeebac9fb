package metrics

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestMemoryLimit: the least limit counts, of the machine, of the group of the process and of those around it, whether it is that of a
// container, which sees its group as the outermost one, or of a unit of systemd.
func TestMemoryLimit(t *testing.T) {
	const mega = 1 << 20
	machine := "MemTotal:        2048 kB\nMemFree:  12 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"nothing is known": {nil, math.Inf(1)},
		"the machine":      {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 2 * mega},
		"a container":      {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n"}, mega},
		"a unit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/gyro.service\n",
			"sys/fs/cgroup/system.slice/gyro.service/memory.max": "1048576\n", "sys/fs/cgroup/system.slice/memory.max": "max\n",
		}, mega},
		"a slice": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/gyro.service\n",
			"sys/fs/cgroup/system.slice/gyro.service/memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "524288\n",
		}, mega / 2},
		"a container, version 1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576\n",
		}, mega},
		"a unit, version 1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:cpu,cpuacct:/other\n4:memory:/system.slice/gyro.service\n0::/another\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":                           "9223372036854771712\n",
			"sys/fs/cgroup/memory/system.slice/gyro.service/memory.limit_in_bytes": "1048576\n",
			"sys/fs/cgroup/memory/other/memory.limit_in_bytes":                     "1\n",
		}, mega},
		"another namespace": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/../../x\nno line\n"}, 2 * mega},
	} {
		root := make(fstest.MapFS)
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := limitOf(root); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
