//go:build unix

package wire

import (
	"strings"
	"testing"
)

func TestEnsureFiles(t *testing.T) {
	t.Parallel()
	if err := EnsureFiles(1); err != nil {
		t.Error(err)
	}
	if err := EnsureFiles(1 << 30); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("descriptors: %v", err)
	}
}
