package httplink

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/client"
)

const (
	remembered = time.Hour
	// retried is when a better transport that failed is tried again.
	retried = 10 * time.Minute
	// patience is how often in a row a transport that has worked may fail.
	patience = 2
)

// Store remembers over restarts of the program which transport has worked. Its methods must not call the client. Load
// returns an empty name for none.
type Store interface {
	Load() (name string, at time.Time)
	Save(name string, at time.Time)
}

// Fallback is several transports, the best first. If one cannot be opened within client.Options.Timeout, or ends before
// the server has sent anything, the client tries the next one at once; after the last it waits as between attempts. From
// then on the client begins with the transport that has worked, and tries it twice before others; a better one is tried
// again with a reconnect 10 minutes after its failure. A store, unless it is nil, makes the first attempt begin with the
// transport that worked within the last hour. Transports that cannot carry the client's Encoding are left out.
func Fallback(s Store, transports ...client.Transport) client.Transport {
	return func(o *client.Options) (client.Dialer, error) {
		f := &fallback{store: s, home: -1}
		var failure error
		for _, t := range transports {
			d, err := t(o)
			switch {
			case err == nil:
				f.all = append(f.all, d)
			case errors.Is(err, errors.ErrUnsupported):
				failure = err
			default:
				return client.Dialer{}, err
			}
		}
		if len(f.all) == 0 {
			return client.Dialer{}, cmp.Or(failure, errors.New("httplink: Fallback: there are no transports"))
		}
		f.failed = make([]time.Time, len(f.all))
		f.load()
		return client.Dialer{Name: f.name, Dial: f.dial, Worked: f.worked, Failed: f.miss}, nil
	}
}

type fallback struct {
	all   []client.Dialer
	store Store

	mu        sync.Mutex
	current   int
	home      int         // the one that has worked; -1: none
	failed    []time.Time // when each has failed last
	misses    int         // how often home has failed since it worked
	searching bool        // current is the next of a search
}

// now goes on while the machine sleeps.
func now() time.Time { return time.Now().Round(0) }

func (f *fallback) load() {
	if f.store == nil {
		return
	}
	name, at := f.store.Load()
	if name == "" || now().Sub(at) >= remembered {
		return
	}
	f.home = slices.IndexFunc(f.all, func(d client.Dialer) bool { return d.Name() == name })
	for i := range f.home {
		f.failed[i] = at // a better one has failed, or the store would name it
	}
}

func (f *fallback) name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[f.current].Name()
}

func (f *fallback) dial(ctx context.Context) (client.Conn, error) {
	f.mu.Lock()
	if !f.searching {
		f.current = max(f.home, 0)
		for i := range f.current {
			if !f.failed[i].IsZero() && now().Sub(f.failed[i]) >= retried {
				f.current = i
				break
			}
		}
	}
	d := f.all[f.current]
	f.mu.Unlock()
	return d.Dial(ctx)
}

func (f *fallback) worked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.home, f.misses, f.searching = f.current, 0, false
	if f.store != nil {
		f.store.Save(f.all[f.current].Name(), now())
	}
}

// miss reports whether the next transport is to be tried at once.
func (f *fallback) miss() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed[f.current] = now()
	next := f.current + 1
	if f.current == f.home {
		f.misses++
		if f.misses < patience {
			return false
		}
		f.home = -1
		if f.current > 0 {
			next = 0
		}
	}
	f.searching = next < len(f.all)
	if f.searching {
		f.current = next
		return true
	}
	f.current, f.home = 0, -1
	return false
}
