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

// From has the forwarded headers of a client: headers of the request that opened its connection, and headers in its
// connect command. A client keeps only headers that a proxy forwards: see Keep. Names are canonical.
type From struct {
	overGRPC  bool    // transport is metadata
	transport []field // headers, or metadata
	emulated  []field
}

type field struct {
	name   string // canonical: X-Request-Id
	values []string
}

// forward lists the names of headers that a proxy forwards. Names are canonical.
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

// hopByHop are headers of one connection. They would break the one to the backend.
var hopByHop = []string{
	"Connection", "Content-Length", "Content-Type", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

// Keeper tells which headers of clients the proxies of a configuration need.
type Keeper struct {
	forward
	limit int // bytes of names and values that are kept of a client
}

// NewKeeper returns the keeper for all proxies that are in use. limit is as client.forwarded_headers_max_size.
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

// LeftOut has names of headers that a client sent, and that are not forwarded.
type LeftOut struct {
	// Forged are headers of the connect command that only a request may have.
	Forged []string
	// Long are headers that exceed the limit.
	Long []string
}

// Keep returns the headers to keep of a client for later calls: nil if none. header returns the headers of the request
// that opened its connection, or the metadata of its gRPC stream; Keep calls it only if it needs them. emulated are the
// headers of the connect command. Keep leaves out the headers that exceed the limit, headers of the connect command
// first. A backend answers long headers with an error, so without the limit a client could use them to keep its backend
// from deciding.
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

// cloned returns a copy that does not keep the request in memory.
func cloned(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.Clone(v)
	}
	return out
}

// fields calls set for each header that the proxy forwards of a client. Of several headers with
// one name, the last one counts.
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
