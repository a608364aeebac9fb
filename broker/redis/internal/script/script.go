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

// Sources of the scripts. Some are parts of scripts.
var (
	//go:embed lua/publish_begin.lua
	luaPublishBegin string
	//go:embed lua/publish_stream.lua
	luaPublishStream string
	//go:embed lua/publish_list.lua
	luaPublishList string
	//go:embed lua/publish_end.lua
	luaPublishEnd string
	//go:embed lua/undo_stream.lua
	luaUndoStream string
	//go:embed lua/undo_list.lua
	luaUndoList string
	//go:embed lua/once.lua
	luaOnce string
	//go:embed lua/read_stream.lua
	luaReadStream string
	//go:embed lua/read_list.lua
	luaReadList string
	//go:embed lua/payload.lua
	luaPayload string
	//go:embed lua/history.lua
	luaHistory string
	//go:embed lua/entry.lua
	luaEntry string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/remove.lua
	luaRemove string
	//go:embed lua/mark.lua
	luaMark string

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
	Publish      *Script // to the history and to subscribers
	ShardPublish *Script // the same by sharded PUB/SUB
	Read         *Script // the position, and publications
	Entry        *Script // the position, and one publication
	Remove       *Script
}

// newHistory makes the scripts of the parts that are of one way.
func newHistory(functions, publish, undo, read string) History {
	by := func(verb string) *Script {
		return newScript("local verb = '"+verb+"'\n", functions, luaPublishBegin, publish, luaPublishEnd, undo)
	}
	return History{
		Publish: by(Publish), ShardPublish: by(ShardPublish), Read: newScript(functions, read, luaHistory),
		Entry: newScript(functions, read, luaEntry), Remove: newScript(functions, read, luaRemove),
	}
}

// Scripts of the broker.
var (
	Streams = newHistory("", luaPublishStream, luaUndoStream, luaReadStream)
	Lists   = newHistory(luaPayload, luaPublishList, luaUndoList, luaReadList)
	Mark    = newScript(luaMark)  // writes a mark, and tells which was there
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
