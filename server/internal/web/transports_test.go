package web

import (
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestMounts: each transport of the configuration has a mount, and each mount a transport.
func TestMounts(t *testing.T) {
	known := make(map[string]bool)
	for _, transport := range new(config.Config).Transports() {
		known[transport.Section] = true
		if mounts[transport.Section] == nil {
			t.Errorf("no mount for the section %s", transport.Section)
		}
	}
	for section := range mounts {
		if !known[section] {
			t.Errorf("config.Transports lacks the section %s", section)
		}
	}
}
