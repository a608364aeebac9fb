package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
)

// script is Lua that Redis knows by its SHA-1, once it has been sent.
type script struct{ text, sha string }

func newScript(parts ...string) *script {
	var text string
	for _, part := range parts {
		text += part
	}
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
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

var (
	streamPublish = newScript(luaStream, luaPublish)
	streamHistory = newScript(luaStream, luaHistory)
	listPublish   = newScript(luaList, luaPublish)
	listHistory   = newScript(luaList, luaHistory)
	streamEntry   = newScript(luaStream, luaEntry)
	listEntry     = newScript(luaList, luaEntry)
	renewEpoch    = newScript(luaRenew)
	publishOnce   = newScript(luaOnce)

	presenceAdd         = newScript(luaPresence, luaPresenceAdd)
	presenceRemove      = newScript(luaPresence, luaPresenceRemove)
	presenceGet         = newScript(luaPresence, luaPresenceGet)
	presenceStats       = newScript(luaPresence, luaPresenceStats)
	presenceFieldAdd    = newScript(luaPresence, luaPresenceFieldAdd)
	presenceFieldRemove = newScript(luaPresence, luaPresenceFieldRemove)
)

// countNames are the numbers of keys, as Redis wants them.
var countNames = [...]string{"0", "1", "2", "3", "4"}

// call is one execution of a script, or a PUBLISH if it has none. It can be made
// into a command more than once.
type call struct {
	script *script
	nkeys  int
	nargs  int
	keys   [4]string
	args   [11]string
}

func (c *call) key(name string)  { c.keys[c.nkeys] = name; c.nkeys++ }
func (c *call) arg(value string) { c.args[c.nargs] = value; c.nargs++ }

// command with the script's SHA-1, or with its text if whole.
func (c *call) command(b rueidis.Builder, whole bool) rueidis.Completed {
	if c.script == nil {
		if c.args[0] == commandSPublish {
			return b.Spublish().Channel(c.keys[0]).Message(c.args[1]).Build()
		}
		// In a Cluster any node takes a PUBLISH, but order needs one and the same.
		return b.Publish().Channel(c.keys[0]).Message(c.args[1]).Build().SetSlot(c.keys[0])
	}
	verb, text := "EVALSHA", c.script.sha
	if whole {
		verb, text = "EVAL", c.script.text
	}
	return b.Arbitrary(verb, text, countNames[c.nkeys]).Keys(c.keys[:c.nkeys]...).Args(c.args[:c.nargs]...).Build()
}

// isUnknownScript tells that Redis wants the script's text.
func isUnknownScript(err error) bool {
	failure, ok := rueidis.IsRedisErr(err)
	return ok && failure.IsNoScript()
}

// flags of a reply.
const (
	flagDone = '0'
	flagKey  = '1'
)

// parseReply reads flag:offset:epoch, which the scripts of the broker return.
func parseReply(reply string) (result broker.PublishResult, err error) {
	if len(reply) < 4 || reply[1] != ':' {
		return result, errReply
	}
	flag, rest := reply[0], reply[2:]
	for i := range len(rest) {
		if rest[i] != ':' {
			continue
		}
		if result.Position.Offset, err = strconv.ParseUint(rest[:i], 10, 64); err != nil {
			return result, errReply
		}
		result.Position.Epoch = rest[i+1:]
		switch flag {
		case flagDone:
		case flagKey:
			result.Suppressed = broker.SuppressIdempotency
		default:
			result.Suppressed = broker.SuppressVersion
		}
		return result, nil
	}
	return result, errReply
}
