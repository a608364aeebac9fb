// Package connections tests transports and modes of connections, and what a client comes back with.
package connections

import (
	"testing"

	"github.com/gyrohq/gyro/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
