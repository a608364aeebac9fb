package fossil

import (
	"bytes"
	"testing"

	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
)

// FuzzApply: deltas of the server give the target, and all others what another implementation says.
func FuzzApply(f *testing.F) {
	f.Add([]byte("the same and more"), []byte("the same and less"), []byte("4\nabc:;"))
	f.Add([]byte{}, []byte("x"), []byte("1\n1:x1_G00;"))
	f.Add([]byte("abc"), []byte(nil), []byte("3\n3@0,1XQR30;"))
	f.Add([]byte("abc"), []byte("abc"), []byte("zzzzzz\n1@0,;"))
	f.Fuzz(func(t *testing.T, base, target, odd []byte) {
		if got, err := Apply(base, Append(nil, base, target)); err != nil || !bytes.Equal(got, target) {
			t.Errorf("%q %v, want %q", got, err, target)
		}
		got, err := Apply(base, odd)
		want, wantErr := fossiltest.Apply(base, odd)
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Errorf("%q from %q: %q %v, the other implementation says %q %v", odd, base, got, err, want, wantErr)
		}
	})
}
