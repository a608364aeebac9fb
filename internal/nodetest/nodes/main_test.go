// Package nodes tests how nodes begin and end, alone and in a cluster, and what they do to clients anywhere.
package nodes

import (
	"testing"

	"github.com/gyrohq/gyro/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
