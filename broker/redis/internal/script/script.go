// Package script holds the Lua that Redis runs for the engine (engines.md 8.5), and
// runs it.
package script

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// Script is Lua that Redis knows by its SHA-1, once it has been sent.
type Script struct{ text, sha string }

func newScript(parts ...string) *Script {
	var text string
	for _, part := range parts {
		text += part
	}
	sum := sha1.Sum([]byte(text))
	return &Script{text, hex.EncodeToString(sum[:])}
}

// Sources of the scripts; stream and list hold functions for the others.
var (
	//go:embed lua/publish.lua
	luaPublish string
	//go:embed lua/once.lua
	luaOnce string
	//go:embed lua/history.lua
	luaHistory string
	//go:embed lua/entry.lua
	luaEntry string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/stream.lua
	luaStream string
	//go:embed lua/list.lua
	luaList string

	//go:embed lua/presence.lua
	luaPresence string
	//go:embed lua/presence_add.lua
	luaPresenceAdd string
	//go:embed lua/presence_remove.lua
	luaPresenceRemove string
	//go:embed lua/presence_get.lua
	luaPresenceGet string
	//go:embed lua/presence_stats.lua
	luaPresenceStats string
	//go:embed lua/presence_field_add.lua
	luaPresenceFieldAdd string
	//go:embed lua/presence_field_remove.lua
	luaPresenceFieldRemove string
)

// History is what one way to keep history takes.
type History struct {
	Publish *Script // to the history and to subscribers
	Read    *Script // the position, and publications
	Entry   *Script // the position, and one publication
}

// Scripts of the broker.
var (
	Streams = History{newScript(luaStream, luaPublish), newScript(luaStream, luaHistory), newScript(luaStream, luaEntry)}
	Lists   = History{newScript(luaList, luaPublish), newScript(luaList, luaHistory), newScript(luaList, luaEntry)}
	Renew   = newScript(luaRenew) // gives a stream another epoch
	Once    = newScript(luaOnce)  // publishes without history, once per idempotency key
)

// Presence is what one way to keep presence takes.
type Presence struct {
	Add, Remove *Script
	Get, Stats  *Script // nil if commands do
}

// Scripts of the presence manager: entries that end by a sorted set beside the hash,
// or each by the life of its own that a field has.
var (
	SetPresence = Presence{
		Add: newScript(luaPresence, luaPresenceAdd), Remove: newScript(luaPresence, luaPresenceRemove),
		Get: newScript(luaPresence, luaPresenceGet), Stats: newScript(luaPresence, luaPresenceStats),
	}
	FieldPresence = Presence{
		Add: newScript(luaPresence, luaPresenceFieldAdd), Remove: newScript(luaPresence, luaPresenceFieldRemove),
	}
)
