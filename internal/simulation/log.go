package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// log is what happened in a run, a line each. Only the scheduler's goroutine writes it.
type log struct {
	*scheduler
	off   bool // most runs need no log, which takes a sixth of their time
	lines []string
	names *strings.Replacer // IDs, which are random, by their names
	known []string
}

// alias replaces an ID by a name from now on.
func (l *log) alias(id, name string) {
	if l.off {
		return
	}
	l.known = append(l.known, id, name)
	l.names = strings.NewReplacer(l.known...)
}

func (l *log) add(who, format string, args ...any) {
	if l.off {
		return
	}
	line := fmt.Sprintf("%9.6f %s: "+format, append([]any{float64(l.now()/time.Microsecond) / 1e6, who}, args...)...)
	if l.names != nil {
		line = l.names.Replace(line)
	}
	l.lines = append(l.lines, line)
}

// stream returns the source of chance of one part of a run, so that another part does not change it.
func stream(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hash(name)))
}

func hash(text string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a, without a copy of the text
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
