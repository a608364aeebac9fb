// Package channels tests publications, streams and recovery, maps, shared polls and feeds.
package channels

import (
	"testing"

	"github.com/gyrohq/gyro/internal/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
