package channel

import (
	"testing"
	"unsafe"
)

// A batch of 50,000 publications makes as many of these: a field in the wrong place costs each
// of them 8 bytes, and a Publication the next class of the allocator.
func TestSizes(t *testing.T) {
	if p, o := unsafe.Sizeof(Publication{}), unsafe.Sizeof(PublishOptions{}); p > 112 || o > 96 {
		t.Errorf("Publication has %d bytes, PublishOptions %d", p, o)
	}
}
