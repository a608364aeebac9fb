// Package e2e has the tests that need published packages of other projects.
package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	fdelta "github.com/shadowspore/fossil-delta"

	"github.com/gyrohq/gyro/internal/fossil"
	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
)

// deltaInterop: each implementation of Fossil deltas, the own one and the Go SDK's, applies the deltas of the other.
func deltaInterop(t *testing.T, base, target []byte) {
	t.Helper()
	ours := fossil.Append(nil, base, target)
	if got, err := fdelta.Apply(base, ours); err != nil || !bytes.Equal(got, target) {
		t.Fatalf("base %q, target %q: our delta %q makes %q, %v", base, target, ours, got, err)
	}
	theirs := fdelta.Create(base, target)
	if got, err := fossiltest.Apply(base, theirs); err != nil || !bytes.Equal(got, target) {
		t.Fatalf("base %q, target %q: their delta %q makes %q, %v", base, target, theirs, got, err)
	}
}

func relative(r *rand.Rand, p []byte) []byte {
	out := bytes.Clone(p)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(out) + 1)
		piece := fmt.Appendf(nil, "%d", r.Uint64())[:r.IntN(16)]
		if r.IntN(2) == 0 {
			out = append(out[:at:at], append(piece, out[at:]...)...)
		} else {
			copy(out[at:], piece)
		}
	}
	return out
}

func TestDeltaInterop(t *testing.T) {
	deltaInterop(t, nil, nil)
	deltaInterop(t, []byte(`{"value":1,"unit":"celsius","sensor":"kitchen-1"}`), []byte(`{"value":2,"unit":"celsius","sensor":"kitchen-1"}`))
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		base := make([]byte, r.IntN(1<<r.IntN(13)))
		symbols := 1 + r.IntN(256)
		for i := range base {
			base[i] = byte(r.IntN(symbols))
		}
		deltaInterop(t, base, relative(r, base))
	}
}

func FuzzDeltaInterop(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789"), []byte("0123456789abcdef-0123456789"))
	f.Fuzz(func(t *testing.T, base, target []byte) {
		deltaInterop(t, base, target)
		deltaInterop(t, base, relative(rand.New(rand.NewPCG(uint64(len(target)), 1)), base))
	})
}
