// Package observation tests counts, logs, taps, the flight recorder, and the list of connections.
package observation

import (
	"testing"

	"github.com/gyrohq/gyro/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
