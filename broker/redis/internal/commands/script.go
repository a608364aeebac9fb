// Package commands holds the commands that the engine sends to Redis, and reads the answers. Most of them are scripts in
// Lua, which Redis runs as one step.
package commands

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
)

// Script is Lua, which Redis knows by its SHA-1 once it was sent.
type Script struct{ text, sha string }

func newScript(parts ...string) *Script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text))
	return &Script{text, hex.EncodeToString(sum[:])}
}

//go:embed lua
var sources embed.FS

func lua(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the names are constants
	}
	return string(text)
}

// HistoryScripts are for one way to keep history.
type HistoryScripts struct {
	History, Meta format.KeyKind

	Publish      *Script // to the history and to subscribers
	ShardPublish *Script // the same by sharded PUB/SUB
	Read         *Script // the position, and publications
	Entry        *Script // the position, and one publication
	Remove       *Script
}

// PublishBy returns Publish or ShardPublish.
func (h *HistoryScripts) PublishBy(sharded bool) *Script {
	if sharded {
		return h.ShardPublish
	}
	return h.Publish
}

func newHistory(history, meta format.KeyKind, functions, publish, undo, read string) HistoryScripts {
	by := func(verb string) *Script {
		return newScript(verbed(verb), functions, lua("publish_begin"), publish, lua("publish_send"), lua("publish_end"), undo)
	}
	return HistoryScripts{
		History: history, Meta: meta,
		Publish: by(Publish), ShardPublish: by(ShardPublish), Read: newScript(functions, read, lua("position"), lua("history")),
		Entry: newScript(functions, read, lua("entry")), Remove: newScript(functions, read, lua("remove")),
	}
}

func verbed(verb string) string { return "local verb = '" + verb + "'\n" }

// MapScripts publish.
type MapScripts struct {
	Change          *Script // of an entry, and in the stream
	ChangeEphemeral *Script // of an entry of a map without stream
	Clear           *Script
}

func newMaps(verb string) MapScripts {
	begin := verbed(verb) + lua("map") + lua("change_begin")
	return MapScripts{
		Change: newScript(begin, lua("publish_begin"), lua("publish_stream"), lua("change_base"), lua("publish_send"),
			lua("change_end"), lua("publish_end"), lua("undo_stream")),
		ChangeEphemeral: newScript(begin, lua("change_plain")),
		Clear:           newScript(verbed(verb), lua("clear")),
	}
}

// Scripts of maps.
var (
	PlainMaps   = newMaps(Publish)
	ShardedMaps = newMaps(ShardPublish)
	State       = newScript(lua("map"), lua("read_stream"), lua("state_begin"), lua("position"), lua("state"))
	Due         = newScript(lua("map"), lua("due"))           // the keys that have expired
	Register    = newScript(lua("map"), lua("look_register")) // has a map looked at
	Claim       = newScript(lua("map"), lua("look_claim"))    // takes maps to be looked at
	EndLook     = newScript(lua("map"), lua("look_end"))      // says when the next look is
)

// Scripts of the broker.
var (
	Streams = newHistory(format.Stream, format.StreamMeta, "", lua("publish_stream"), lua("undo_stream"), lua("read_stream"))
	Lists   = newHistory(format.List, format.ListMeta, lua("payload"), lua("publish_list"), lua("undo_list"), lua("read_list"))
	Mark    = newScript(lua("mark"))  // writes a mark, and tells which was there
	Renew   = newScript(lua("renew")) // gives a stream another epoch
	Once    = newScript(lua("once"))  // publishes without history, once per idempotency key
)

// PresenceScripts are for one way to keep presence.
type PresenceScripts struct {
	Add, Remove *Script
	Get, Stats  *Script // nil if there are commands for that
}

// Scripts of the presence manager: entries expire by a sorted set, or by the time to live of hash fields.
var (
	SetPresence   = PresenceScripts{presence("add"), presence("remove"), presence("get"), presence("stats")}
	FieldPresence = PresenceScripts{Add: presence("field_add"), Remove: presence("field_remove")}
)

func presence(name string) *Script { return newScript(lua("presence"), lua("presence_"+name)) }
