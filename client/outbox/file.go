package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// File is a Store in a file. It appends a line with a checksum for each record, and flushes it to the disk before Put
// returns. A crash of the program or the machine loses no entry that was kept; a record that the crash has cut is
// dropped at the next start. The file is written anew when most of it is of no use. Data is not encrypted; only the user
// of the program can read the file.
type File struct {
	path string

	mu     sync.Mutex
	file   *os.File
	live   map[uint64][]byte // the records of entries
	used   int64             // bytes of the file
	wanted int64             // bytes of the records in live
	broken error             // why nothing is written any more
}

// record is a line of the file: an entry, or the ID of one that is removed.
type record struct {
	Put    *Entry `json:"put,omitempty"`
	Delete uint64 `json:"delete,omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r record) line() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text), nil
}

// parse reads a line without its end.
func parse(line []byte) (r record, ok bool) {
	sum, text, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(sum) != 8 {
		return r, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(text, castagnoli) {
		return r, false
	}
	return r, json.Unmarshal(text, &r) == nil
}

// OpenFile opens a file, or makes it. It fails if another File has it open (on Unix), or if it is damaged other than by
// a crash.
func OpenFile(path string) (*File, error) {
	file, err := openLocked(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	f := &File{path: path, file: file, live: make(map[uint64][]byte)}
	if err := f.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func openLocked(path string, flags int) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(file); err != nil {
			return nil, errors.Join(fmt.Errorf("%s is in use: %w", path, err), file.Close())
		}
		mine, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return file, nil
		}
		_ = file.Close() // it was replaced meanwhile
	}
}

// read drops a record that a crash has cut.
func (f *File) read() error {
	data, err := io.ReadAll(f.file)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	for rest := data; len(rest) > 0; {
		line, next, whole := bytes.Cut(rest, []byte("\n"))
		r, ok := parse(line)
		if !ok || !whole {
			if follows(next) {
				return fmt.Errorf("outbox: %s is damaged at byte %d: a record does not match its checksum, and others follow it", f.path, f.used)
			}
			break
		}
		n := len(rest) - len(next)
		if r.Put != nil {
			f.live[r.Put.ID] = bytes.Clone(rest[:n])
			f.wanted += int64(n)
		} else {
			f.forget(r.Delete)
		}
		f.used += int64(n)
		rest = next
	}
	if f.used == int64(len(data)) {
		return nil
	}
	if err := f.file.Truncate(f.used); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

func follows(data []byte) bool {
	for line := range bytes.Lines(data) {
		if _, ok := parse(bytes.TrimSuffix(line, []byte("\n"))); ok && bytes.HasSuffix(line, []byte("\n")) {
			return true
		}
	}
	return false
}

func (f *File) forget(id uint64) {
	f.wanted -= int64(len(f.live[id]))
	delete(f.live, id)
}

// Load implements Store.
func (f *File) Load() ([]Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries := make([]Entry, 0, len(f.live))
	for _, line := range f.live {
		r, _ := parse(bytes.TrimSuffix(line, []byte("\n"))) // it was read, or written, before
		entries = append(entries, *r.Put)
	}
	return entries, nil
}

// Put implements Store.
func (f *File) Put(e Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	line, err := record{Put: &e}.line()
	if err != nil {
		return err
	}
	if err := f.append(line); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		f.broken = err // it is unknown which bytes the disk has
		return err
	}
	f.live[e.ID] = line
	f.wanted += int64(len(line))
	return nil
}

// Delete implements Store. It does not wait for the disk: an entry that a crash of the machine brings back is sent
// again.
func (f *File) Delete(id uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	line, err := record{Delete: id}.line()
	if err != nil {
		return err
	}
	if err := f.append(line); err != nil {
		return err
	}
	f.forget(id)
	switch {
	case f.used <= maxWaste:
		return nil
	case len(f.live) == 0:
		f.used = 0
		return f.file.Truncate(0)
	case f.used > 2*f.wanted:
		return f.rewrite()
	}
	return nil
}

// maxWaste is the largest file that is not written anew, in bytes.
const maxWaste = 64 << 10

// append: the lock is held, as in the functions that follow.
func (f *File) append(line []byte) error {
	if f.broken != nil {
		return f.broken
	}
	if _, err := f.file.WriteAt(line, f.used); err != nil {
		f.broken = f.file.Truncate(f.used)
		if f.broken != nil {
			f.broken = fmt.Errorf("a part of a record cannot be removed: %w", f.broken)
		}
		return err
	}
	f.used += int64(len(line))
	return nil
}

// rewrite leaves the live records alone.
func (f *File) rewrite() error {
	// An existing file is not opened: others may have made a link to another file.
	if err := os.Remove(f.path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh, err := openLocked(f.path+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	var all []byte
	for _, id := range slices.Sorted(maps.Keys(f.live)) {
		all = append(all, f.live[id]...)
	}
	_, err = fresh.Write(all)
	if err == nil {
		err = fresh.Sync()
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		return errors.Join(err, fresh.Close()) // the old file goes on
	}
	old := f.file
	f.file, f.used = fresh, int64(len(all))
	return errors.Join(old.Close(), syncFolder(filepath.Dir(f.path)))
}

func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

// Close closes the file. Close the outbox before.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = os.ErrClosed
	return f.file.Close()
}
