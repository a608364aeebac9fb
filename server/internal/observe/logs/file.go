package logs

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	lookAfter = time.Second
	tellAfter = time.Minute
)

// file is log.file. It is opened anew when it is not at its path any more.
type file struct {
	path string
	lost *slog.Logger // is told that lines are lost; not the log that the file is of

	mu     sync.Mutex
	f      *os.File
	looked time.Time // when the file was compared with its path
	torn   bool      // the line at its end is not whole
	told   time.Time // when lost was told
}

// openFile opens a file, which it makes if there is none.
func openFile(path string, lost *slog.Logger) (*file, error) {
	f, err := openAt(path)
	if err != nil {
		return nil, err
	}
	return &file{path: path, lost: lost, f: f, looked: time.Now()}, nil
}

func openAt(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}

func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.looked) >= lookAfter {
		f.looked = now
		f.follow()
	}
	n, err := f.write(line)
	if err != nil {
		f.tell("lines of the log are lost: the file cannot be written", err)
	}
	return n, err
}

func (f *file) write(line []byte) (int, error) {
	if f.torn {
		if _, err := f.f.WriteString("\n"); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := f.f.Write(line)
	f.torn = err != nil && n > 0
	return n, err
}

func (f *file) follow() {
	at, err := os.Stat(f.path)
	if err == nil {
		if own, err := f.f.Stat(); err == nil && os.SameFile(at, own) {
			return
		}
	}
	if err := f.reopen(); err != nil {
		f.tell("the file of the log was renamed or removed, and cannot be opened anew: lines go to the old one", err)
	}
}

// Reopen opens the file anew. After an error lines go to the old one.
func (f *file) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reopen()
}

func (f *file) reopen() error {
	next, err := openAt(f.path)
	if err != nil {
		return err
	}
	_ = f.f.Close() // its lines are written
	f.f, f.torn = next, false
	return nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}

func (f *file) tell(message string, err error) {
	if now := time.Now(); f.told.IsZero() || now.Sub(f.told) >= tellAfter {
		f.told = now
		f.lost.Error(message, "key", "log.file", "file", f.path, "error", err)
	}
}
