// Package script holds the Lua that Redis runs for the engine, and
// runs it.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

// Script is Lua that Redis knows by its SHA-1, once it has been sent.
type Script struct{ text, sha string }

func newScript(parts ...string) *Script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text))
	return &Script{text, hex.EncodeToString(sum[:])}
}

//go:embed lua
var sources embed.FS

// lua returns a file of Lua: a script, or a part of scripts.
func lua(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the names are constants
	}
	return string(text)
}

// History has the scripts of one way to keep history.
type History struct {
	Publish      *Script // to the history and to subscribers
	ShardPublish *Script // the same by sharded PUB/SUB
	Read         *Script // the position, and publications
	Entry        *Script // the position, and one publication
	Remove       *Script
}

// newHistory makes the scripts of one way to keep history of its parts.
func newHistory(functions, publish, undo, read string) History {
	by := func(verb string) *Script {
		return newScript("local verb = '"+verb+"'\n", functions, lua("publish_begin"), publish, lua("publish_end"), undo)
	}
	return History{
		Publish: by(Publish), ShardPublish: by(ShardPublish), Read: newScript(functions, read, lua("history")),
		Entry: newScript(functions, read, lua("entry")), Remove: newScript(functions, read, lua("remove")),
	}
}

// Scripts of the broker.
var (
	Streams = newHistory("", lua("publish_stream"), lua("undo_stream"), lua("read_stream"))
	Lists   = newHistory(lua("payload"), lua("publish_list"), lua("undo_list"), lua("read_list"))
	Mark    = newScript(lua("mark"))  // writes a mark, and tells which was there
	Renew   = newScript(lua("renew")) // gives a stream another epoch
	Once    = newScript(lua("once"))  // publishes without history, once per idempotency key
)

// Presence has the scripts of one way to keep presence.
type Presence struct {
	Add, Remove *Script
	Get, Stats  *Script // nil if there are commands for that
}

// Scripts of the presence manager. The entries of SetPresence expire by a sorted set beside
// the hash, those of FieldPresence by the time to live of their hash fields.
var (
	SetPresence   = Presence{presence("add"), presence("remove"), presence("get"), presence("stats")}
	FieldPresence = Presence{Add: presence("field_add"), Remove: presence("field_remove")}
)

func presence(name string) *Script { return newScript(lua("presence"), lua("presence_"+name)) }
