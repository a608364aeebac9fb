package auth

import (
	"fmt"
	"iter"

	"github.com/gyrohq/gyro/channel"
)

// Capability is an element of the claim caps, or of caps in the answer of a backend.
type Capability struct {
	Channels []string `json:"channels"`
	Allow    []string `json:"allow"`
	Match    string   `json:"match"`
}

// CapabilitiesOf returns the capabilities of a list. The error names the element and its fault.
func CapabilitiesOf(list iter.Seq[Capability]) (*channel.Capabilities, error) {
	var all []channel.Capability
	for c := range list {
		rights, err := channel.ParseRights(c.Allow)
		if err != nil {
			return nil, fmt.Errorf("capability %d: %w", len(all), err)
		}
		all = append(all, channel.Capability{Channels: c.Channels, Allow: rights, Match: channel.Match(c.Match)})
	}
	return channel.NewCapabilities(all)
}
