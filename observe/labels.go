package observe

import (
	"strings"
	"sync"
)

// Bounds of ClientLabels: its keys, and combinations of their values.
const (
	MaxClientLabels = 4
	MaxLabelSets    = 1<<8 - 2
)

const maxLabel = 64

// OtherLabel is the value of all labels of clients beyond the limit of combinations.
const OtherLabel = "other"

// ClientLabels tell clients apart by labels that the application gives them: see gyro.ConnectReply.Labels. There is a
// limit on combinations of values, because each has counters. Any goroutine may use it.
type ClientLabels struct {
	keys  []string
	limit int
	full  func()

	mu sync.RWMutex
	// numbers of combinations. 0 are clients without any of the labels, 1 all combinations beyond the limit.
	numbers map[[MaxClientLabels]string]uint8
	sets    [][MaxClientLabels]string
	warned  bool
}

// NewClientLabels returns labels with at most MaxClientLabels keys. It tells apart at most limit combinations of their
// values, and at most MaxLabelSets, by the first 64 bytes of a value. It calls full once, for the first client beyond
// the limit, on its loop.
func NewClientLabels(keys []string, limit int, full func()) *ClientLabels {
	l := &ClientLabels{keys: keys[:min(len(keys), MaxClientLabels)], limit: min(limit, MaxLabelSets), full: full}
	var none, other [MaxClientLabels]string
	for i := range l.keys {
		other[i] = OtherLabel
	}
	l.numbers, l.sets = map[[MaxClientLabels]string]uint8{none: 0, other: 1}, [][MaxClientLabels]string{none, other}
	return l
}

func (l *ClientLabels) number(labels map[string]string) uint8 {
	if l == nil {
		return 0
	}
	var set [MaxClientLabels]string
	for i, key := range l.keys {
		text := labels[key]
		set[i] = text[:min(len(text), maxLabel)]
	}
	l.mu.RLock()
	n, ok := l.numbers[set]
	l.mu.RUnlock()
	if ok {
		return n
	}
	l.mu.Lock()
	n, ok = l.numbers[set]
	if !ok && len(l.sets)-2 < l.limit {
		n, ok = uint8(len(l.sets)), true
		for i, text := range set {
			set[i] = strings.Clone(text)
		}
		l.numbers[set] = n
		for i, text := range set {
			set[i] = strings.ToValidUTF8(text, "?")
		}
		l.sets = append(l.sets, set)
	}
	warn := !ok && !l.warned
	l.warned = l.warned || warn
	l.mu.Unlock()
	if warn && l.full != nil {
		l.full()
	}
	if !ok {
		return 1
	}
	return n
}

// Values appends the values of an Agent's labels to dst, in the order of the keys: empty for a label that the client
// does not have, OtherLabel for all beyond the limit.
func (l *ClientLabels) Values(dst []string, a Agent) []string {
	if l == nil {
		return dst
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return append(dst, l.sets[a/agentLabels][:len(l.keys)]...)
}
