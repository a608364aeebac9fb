package conformance

import "github.com/gyrohq/gyro/server/internal/tools/conformance/conversation"

func randomChecks() []check {
	const delivery, recovery, section = "protocol-rules.md#delivery", "protocol-rules.md#recovery", "protocol-rules.md#maps"
	return []check{
		{"random.turns", delivery, "in a random conversation of several clients, one command at a time, each gets what a model foresees", stream | publishes, func(t *trial) { t.converse().Turns() }},
		{"random.crowd", delivery, "in a random conversation of several clients at a time, all agree on one order, and nobody misses anything", stream | publishes | positions, func(t *trial) { t.converse().Crowd(false) }},
		{"random.returns", recovery, "the same, with connections that are lost, and come back from their positions", stream | publishes | recovers, func(t *trial) { t.converse().Crowd(true) }},
		{"random.map", section, "whatever is set and removed, and whoever comes and goes, each client has the map as it is", mapState | writes, func(t *trial) { t.converse().Board() }},
	}
}

func (t *trial) converse() *conversation.Talk {
	return &conversation.Talk{
		Probe: t.Probe, Random: t.random, Steps: t.steps, Presence: t.has&presence != 0, History: t.has&keeps != 0, Cache: t.has&caches != 0,
	}
}
