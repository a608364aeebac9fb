package outbox

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	googlecmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func open(t rapid.TB, path string) *File {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func load(t rapid.TB, f *File) []Entry {
	t.Helper()
	entries, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries
}

// TestFile: whatever is put and deleted, and wherever a crash cuts the last record, the file has what it should.
func TestFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(folder, "outbox"+string(rune('a'+n%26)))
		_ = os.Remove(path)
		f := open(t, path)
		defer func() { _ = f.Close() }()
		want := []Entry{}
		id := uint64(0)
		for _, what := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 25).Draw(t, "what") {
			switch {
			case what < 5:
				id++
				e := Entry{ID: id, Kind: RPC, To: "m", Key: "k", Expires: time.Unix(int64(id), 5).UTC(),
					Data: bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "data"), rapid.IntRange(1, 2000).Draw(t, "size"))}
				if err := f.Put(e); err != nil {
					t.Fatal(err)
				}
				want = append(want, e)
			case what < 9 && len(want) > 0:
				at := rapid.IntRange(0, len(want)-1).Draw(t, "at")
				if err := f.Delete(want[at].ID); err != nil {
					t.Fatal(err)
				}
				want = slices.Delete(want, at, at+1)
			default:
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				crash(t, path)
				f = open(t, path)
			}
		}
		if diff := googlecmp.Diff(want, load(t, f)); diff != "" {
			t.Fatal(diff)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > maxWaste+2*f.wanted {
			t.Fatal(info, err, f.wanted)
		}
	})
}

// crash leaves a part of a record that was being written, or what a disk makes of it.
func crash(t *rapid.T, path string) {
	line, err := record{Put: &Entry{ID: 1 << 40, Data: []byte("never acknowledged")}}.line()
	if err != nil {
		t.Fatal(err)
	}
	part := line[:rapid.IntRange(0, len(line)-1).Draw(t, "cut")]
	if rapid.Bool().Draw(t, "zeros") {
		part = append(part, make([]byte, 100)...)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(part); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamage: a record that was changed is not taken for one that a crash has cut.
func TestDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outbox")
	f := open(t, path)
	for id := range uint64(3) {
		if err := f.Put(Entry{ID: id + 1, To: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(Entry{ID: 9}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.IndexByte(data, '\n') + 20
	data[second] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged at byte") {
		t.Errorf("%v", err)
	}
}

// TestLock: a file is for one.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outbox")
	f := open(t, path)
	if _, err := OpenFile(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	for id := range uint64(100) { // until it is written anew
		if err := f.Put(Entry{ID: id + 1, Data: make([]byte, 2000)}); err != nil {
			t.Fatal(err)
		}
		if id > 0 {
			if err := f.Delete(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := OpenFile(path); err == nil {
		t.Error("the file that was written anew can be opened twice")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, path)
	defer f.Close()
	if entries := load(t, f); len(entries) != 1 || entries[0].ID != 100 {
		t.Errorf("%+v", entries)
	}
}

// TestLinks: a user with rights to the folder cannot make the outbox empty another file.
func TestLinks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, other := filepath.Join(folder, "outbox"), filepath.Join(folder, "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	defer func() { _ = f.Close() }()
	if err := os.Symlink(other, path+".new"); err != nil {
		t.Skipf("the system makes no links: %v", err)
	}
	if err := f.Put(Entry{ID: 1, Data: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	err := f.rewrite()
	f.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "precious" {
		t.Errorf("the other file has %q, %v", text, err)
	}
	if entries := load(t, f); len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}
