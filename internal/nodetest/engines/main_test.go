// Package engines tests what a node takes from its engines, and what is left when they, or others, fail.
package engines

import (
	"testing"

	"github.com/gyrohq/gyro/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
