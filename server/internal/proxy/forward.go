package proxy

import (
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gyrohq/gyro/server/internal/config"
)

// From has the forwarded headers of a client, from the request of its connection and from its connect command. Names are
// canonical.
type From struct {
	overGRPC  bool    // transport is metadata
	transport []field // headers, or metadata
	emulated  []field
}

type field struct {
	name   string // canonical: X-Request-Id
	values []string
}

// forward has the canonical names of the headers that a proxy forwards.
type forward struct {
	transport []string // from the headers of the connection
	metadata  []string // of clients over gRPC: from the metadata of the stream
	emulated  []string // from the connect command
}

func newForward(c *config.Proxy) forward {
	return forward{canonical(c.HTTPHeaders), canonical(c.GRPCMetadata), canonical(c.EmulatedHeaders)}
}

func canonical(names []string) []string {
	var out []string
	for _, n := range names {
		if n = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(n)); n != "" && !slices.Contains(hopByHop, n) {
			out = append(out, n)
		}
	}
	return out
}

// hopByHop are headers of one connection, which would break the connection to the backend.
var hopByHop = []string{
	"Connection", "Content-Length", "Content-Type", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

// Keeper keeps the headers of clients that the proxies of a configuration forward.
type Keeper struct {
	forward
	limit int // bytes of names and values that are kept of a client
}

// NewKeeper returns the keeper for all proxies of a configuration. limit is client.forwarded_headers_max_size.
func NewKeeper(limit int, proxies ...*Proxy) *Keeper {
	k := &Keeper{limit: limit}
	for _, p := range proxies {
		k.transport = union(k.transport, p.forward.transport)
		k.metadata = union(k.metadata, p.forward.metadata)
		k.emulated = union(k.emulated, p.forward.emulated)
	}
	return k
}

func union(a, b []string) []string {
	for _, n := range b {
		if !slices.Contains(a, n) {
			a = append(a, n)
		}
	}
	return a
}

// LeftOut has names of a client's headers that are not forwarded.
type LeftOut struct {
	// Forged are headers of the connect command that may only be in a request.
	Forged []string
	Long   []string
}

// Keep returns the headers of a client for later calls; nil if none. header returns the headers of the request, or the
// metadata of the gRPC stream; emulated are the headers of the connect command. Headers above the limit are left out,
// emulated ones first: a backend answers long headers with an error, with which a client could keep it from deciding.
func (k *Keeper) Keep(overGRPC bool, header func() http.Header, emulated map[string]string) (*From, LeftOut) {
	var left LeftOut
	var fromHeader, fromCommand []field
	room := k.limit
	fits := func(n string, values ...string) bool {
		size := 0
		for _, v := range values {
			size += len(n) + len(v)
		}
		if size > room {
			left.Long = append(left.Long, n)
			return false
		}
		room -= size
		return true
	}
	names := k.transport
	if overGRPC {
		names = k.metadata
	}
	if len(names) > 0 {
		h := header()
		for _, n := range names {
			if values := h[n]; len(values) > 0 && fits(n, values...) {
				fromHeader = append(fromHeader, field{n, cloned(values)})
			}
		}
	}
	for _, given := range slices.Sorted(maps.Keys(emulated)) {
		n, value := textproto.CanonicalMIMEHeaderKey(given), emulated[given]
		switch {
		case slices.Contains(k.emulated, n):
			if httpguts.ValidHeaderFieldName(n) && httpguts.ValidHeaderFieldValue(value) && fits(n, value) {
				fromCommand = append(fromCommand, field{n, []string{strings.Clone(value)}})
			}
		case slices.Contains(k.transport, n):
			left.Forged = append(left.Forged, n)
		}
	}
	if fromHeader == nil && fromCommand == nil {
		return nil, left
	}
	return &From{overGRPC: overGRPC, transport: fromHeader, emulated: fromCommand}, left
}

// cloned returns a copy that does not keep the memory of the request.
func cloned(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.Clone(v)
	}
	return out
}

// fields calls set for each forwarded header of a client. Of several with one name, the last counts.
func (w *forward) fields(from *From, set func(name string, values []string)) {
	if from == nil {
		return
	}
	for i := range from.emulated {
		if f := &from.emulated[i]; slices.Contains(w.emulated, f.name) {
			set(f.name, f.values)
		}
	}
	names := w.transport
	if from.overGRPC {
		names = w.metadata
	}
	for i := range from.transport {
		if f := &from.transport[i]; slices.Contains(names, f.name) {
			set(f.name, f.values)
		}
	}
}
