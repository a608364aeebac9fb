package logs

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/refusal"
)

const (
	// Kinds beyond maxKinds are one kind without a name.
	maxKinds = 512
	// maxExamples are kept of a kind. maxShown bounds each of their texts, in bytes.
	maxExamples = 5
	maxShown    = 256
)

// Refusals counts the refusals of the node since its start, by kind, code and key, in some 5 MiB at most. Any goroutine
// may call its methods.
type Refusals struct {
	mu    sync.Mutex
	since time.Time // of the first refusal
	kinds map[refusalKind]*Refused
}

type refusalKind struct {
	kind string
	code uint32
	key  string
}

// Refused is a kind of refusals.
type Refused struct {
	// Kind is the message of the log; empty for kinds beyond the first 512.
	Kind string `json:"kind"`
	Code uint32 `json:"code,omitempty"`
	// Key is the key of the configuration that would allow it.
	Key   string    `json:"key,omitempty"`
	Count uint64    `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Examples are the newest, the newest one first.
	Examples []Example `json:"examples"`
}

// Example is a refusal, with the texts of its log line.
type Example struct {
	Time   time.Time `json:"time"`
	Client string    `json:"client,omitempty"`
	User   string    `json:"user,omitempty"`
	// UnverifiedUser is the user in a token with a wrong or unverified signature.
	UnverifiedUser string `json:"unverified_user,omitempty"`
	Channel        string `json:"channel,omitempty"`
	Method         string `json:"method,omitempty"`
	Path           string `json:"path,omitempty"`
	Addr           string `json:"addr,omitempty"`
	Origin         string `json:"origin,omitempty"`
	Reason         string `json:"reason,omitempty"`
}

func (r *Refusals) add(f *refusal.Refusal, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds, r.since = make(map[refusalKind]*Refused), now
	}
	k := refusalKind{f.Kind, f.Code, f.Key}
	of := r.kinds[k]
	if of == nil && len(r.kinds) >= maxKinds {
		k = refusalKind{}
		of = r.kinds[k]
	}
	if of == nil {
		of = &Refused{Kind: k.kind, Code: k.code, Key: k.key, First: now}
		r.kinds[k] = of
	}
	of.Count++
	of.Last = now
	e := Example{
		Time: now, Client: shown(f.Client), User: shown(f.User), UnverifiedUser: shown(f.UnverifiedUser), Channel: shown(f.Channel), Method: shown(f.Method), Path: shown(f.Path),
		Addr: shown(f.Addr), Origin: shown(f.Origin), Reason: shown(f.Reason),
	}
	if len(of.Examples) == maxExamples {
		copy(of.Examples, of.Examples[1:])
		of.Examples = of.Examples[:maxExamples-1]
	}
	of.Examples = append(of.Examples, e)
}

// shown copies the beginning of a text, because the text may lie in larger memory.
func shown(text string) string {
	if len(text) > maxShown {
		text = text[:maxShown]
	}
	return strings.Clone(strings.ToValidUTF8(text, ""))
}

// List returns the kinds, the most frequent ones first.
func (r *Refusals) List() (kinds []Refused, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds = make([]Refused, 0, len(r.kinds))
	for _, of := range r.kinds {
		copied := *of
		copied.Examples = slices.Clone(of.Examples)
		slices.Reverse(copied.Examples)
		kinds = append(kinds, copied)
	}
	slices.SortFunc(kinds, func(a, b Refused) int {
		if a.Count != b.Count {
			return int(min(max(int64(b.Count)-int64(a.Count), -1), 1))
		}
		return strings.Compare(a.Kind+a.Key, b.Kind+b.Key)
	})
	return kinds, r.since
}
