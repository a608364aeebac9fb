package httpstream

import (
	"testing"
	"unsafe"

	"github.com/gyrohq/gyro/transport/httpstream/internal/endpoint"
	"github.com/gyrohq/gyro/transport/internal/driver"
)

// loopConn is a connection of a Handler on a loop.
type loopConn = driver.LoopConn[endpoint.Endpoint, *endpoint.Endpoint]

// A connection on a loop is to fit into the allocator's size class of 80 bytes.
func TestLoopConnSize(t *testing.T) {
	if size := unsafe.Sizeof(loopConn{}); unsafe.Sizeof(uintptr(0)) == 8 && size > 80 {
		t.Errorf("a loopConn has %d bytes", size)
	}
}
