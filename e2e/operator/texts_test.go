//go:build linux

package operator

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func TestSayings(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var one, two sayings
	one.hear(nil, at(0))
	one.hear([]string{"no answer for 3s"}, at(5))
	one.hear([]string{"no answer for 4s"}, at(6)) // the same
	one.hear(nil, at(12))
	one.hear([]string{"503 failing", "redis: full"}, at(20))
	one.hear([]string{"503 failing"}, at(23))
	two.hear([]string{"no answer for 9s"}, at(9))
	two.hear(nil, at(10))
	two.hear([]string{"503 failing"}, at(19))
	two.hear(nil, at(21))
	two.hear([]string{"503 failing"}, at(22))
	told := func(begin, end int) []string {
		return summary(map[string][]saying{"rt-1": one.between(at(begin), at(end)), "rt-2": two.between(at(begin), at(end))}, at(begin))
	}
	for _, c := range []struct {
		begin, end int
		want       []string
	}{
		{10, 25, []string{"rt-1: no answer for … (0-2 s)", "rt-1, rt-2: 503 failing (9-15 s, 3 times)", "rt-1: redis: full (10-13 s)"}},
		{0, 11, []string{"rt-1, rt-2: no answer for … (5-12 s)"}},
		{13, 14, nil},
	} {
		if got := told(c.begin, c.end); !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d: %q, want %q", c.begin, c.end, got, c.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"no canary for 3.2s through 127.0.0.1:6379":                                                   "no canary for … through 127.0.0.1:6379",
		"expires at 2026-11-30T18:35:11Z":                                                             "expires at …",
		"redis: sentinel sentinel-1: EOF; sentinel sentinel-2: i/o timeout; sentinel sentinel-3: EOF": "redis: no Sentinel answers",
		"no answer within 2 s":                                                                        "no answer within …",
		"read tcp 127.0.0.1:43200->127.0.0.1:6379: EOF":                                               "read tcp …->127.0.0.1:6379: EOF",
		"dial tcp 127.0.0.1:6379: connection refused":                                                 "dial tcp 127.0.0.1:6379: connection refused",
		"OOM command not allowed when used memory > 'maxmemory'":                                      "OOM command not allowed when used memory > 'maxmemory'",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	found := make(warnings)
	found.read(`{"level":"info","message":"fine"}
{"level":"warn","message":"redis was lost","error":"EOF"}
{"level":"warn","message":"redis was lost","error":"EOF","suppressed":4}
{"level":"warn","message":"redis was lost","error":"a timeout"}
{"level":"warn","message":"redis was lost","error":"b timeout"}
broken
`, "rt-1")
	found.read(`{"level":"warn","message":"redis was lost","error":"EOF"}
{"level":"error","message":"full"}`, "rt-2")
	want := []string{
		"error `a line that is no JSON: broken`: rt-1 1", "error `full`: rt-2 1",
		"warn `redis was lost`: rt-1 8, rt-2 1 (EOF; a timeout; 1 more)",
	}
	if got := found.lines(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNginxErrors(t *testing.T) {
	got := nginxErrors(`2026/11/29 18:00:00 [error] 12#12: *34 connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: rt
2026/11/29 18:00:01 [error] 12#12: *35 connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: rt
2026/11/29 18:00:01 [alert] 11#11: worker process 12 exited on signal 9
something else
`)
	want := map[string]int{
		"error `connect() failed (111: Connection refused) while connecting to upstream`": 2,
		"alert `worker process 12 exited on signal 9`":                                    1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTold(t *testing.T) {
	begin := time.UnixMilli(100_000)
	got := told([]alert{
		{"GyroNodeDown", "critical", map[string]string{"__name__": "up", "instance": "rt-2", "job": "gyro"}, 110_000, 170_000, 180_000},
		{"GyroNodeDown", "critical", map[string]string{"__name__": "up", "instance": "rt-1", "job": "gyro"}, 105_000, 0, 120_000},
		{"GyroChurn", "warning", map[string]string{"job": "gyro"}, 190_000, 0, 195_000},
		{"GyroChurn", "warning", map[string]string{"job": "gyro"}, 90_000, 0, 105_000},
		{"GyroMemory", "critical", map[string]string{"instance": "rt-1"}, 80_000, 90_000, 95_000},
		{"GyroReconnects", "warning", map[string]string{"instance": "rt-1"}, 80_000, 80_000, 110_000},
	}, begin, time.UnixMilli(200_000))
	want := []string{
		"GyroNodeDown (critical): pending at 5 s, fires at 70 s, until 80 s; instance=rt-1, instance=rt-2",
		"GyroChurn (warning): pending at 90 s, pending only, until 95 s; the cluster",
		"GyroReconnects (warning): pending at -20 s, fires at -20 s, until 10 s; instance=rt-1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
