package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestFaults: a target is in fault from the first sample that fails, or from a transaction that hangs, until a sample
// succeeds; the news are that a sort of transactions fails, and that all of it is well again.
func TestFaults(t *testing.T) {
	p := proof{doubts: make(chan struct{}, 1), targets: make(map[target]fault)}
	well := func(what string) {
		t.Helper()
		if err := p.err(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	fails := func(what, reason string) {
		t.Helper()
		if err := p.err(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %s", what, err, reason)
		}
	}
	news := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: news %v", what, got)
		}
	}
	first, second, entries := target{ofStreams, 1}, target{ofStreams, 2}, target{ofMaps, 1}
	began := time.Now()
	p.doubt(first)
	well("a doubt")
	news("a sample that is written", p.succeed(first), false)
	news("a full disk", p.fail(first, fault{reason: errors.New("full")}), true)
	news("another shard", p.fail(second, fault{reason: errors.New("full, too")}), false)
	news("maps", p.fail(entries, fault{reason: errors.New("locked"), hung: began}), true)
	fails("a full disk", "publications with history fail: full")
	news("one shard is well", p.succeed(first), false)
	fails("the other shard is not", "full, too")
	news("all shards are well", p.succeed(second), true)
	fails("maps hang", "changes of maps fail: locked")
	p.doubt(entries)
	news("a sample behind what hangs", p.fail(entries, fault{reason: fmt.Errorf("sample: %w", context.DeadlineExceeded)}), false)
	fails("maps hang", "locked")
	if since := p.hungSince(entries, began.Add(time.Minute)); !since.Equal(began) {
		t.Errorf("they hang since %v, want %v", since, began)
	}
	news("an answer", p.fail(entries, fault{reason: errors.New("read-only")}), false)
	fails("an answer", "read-only")
	if since := p.hungSince(entries, began.Add(time.Minute)); since.Equal(began) {
		t.Error("what has been answered hangs")
	}
	news("maps are well", p.succeed(entries), true)
	well("the end")
	if list := p.doubtful(); len(list) > 0 {
		t.Errorf("%v are in doubt", list)
	}
}
