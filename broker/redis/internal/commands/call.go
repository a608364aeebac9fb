package commands

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

// Verbs of PUB/SUB.
const (
	Publish      = "publish"
	ShardPublish = "spublish"
)

var countNames = [...]string{"0", "1", "2", "3", "4", "5", "6"}

// Call is one execution of a script with at most 6 keys, or a PUBLISH or SPUBLISH. More than 4 keys and 11 arguments are
// rare, and take memory of their own.
type Call struct {
	Script *Script
	nkeys  int
	nargs  int
	via    string
	keys   [4]string
	args   [11]string
	more   [2][]string // keys and arguments beyond
}

// Key adds keys.
func (c *Call) Key(names ...string) {
	for _, name := range names {
		if c.nkeys < len(c.keys) {
			c.keys[c.nkeys] = name
		} else {
			c.more[0] = append(c.more[0], name)
		}
		c.nkeys++
	}
}

// Arg adds arguments.
func (c *Call) Arg(values ...string) {
	for _, value := range values {
		if c.nargs < len(c.args) {
			c.args[c.nargs] = value
			c.nargs++
		} else {
			c.more[1] = append(c.more[1], value)
		}
	}
}

// Reset leaves keys and arguments in place: a large broadcast would spend 3% of its time on clearing them.
func (c *Call) Reset() {
	c.Script, c.nkeys, c.nargs, c.via, c.more = nil, 0, 0, "", [2][]string{}
}

// Message makes c publish by one of the verbs. c must be empty.
func (c *Call) Message(verb, name, data string) {
	c.keys[0], c.args[0], c.args[1] = name, verb, data
}

// Via sends a PUBLISH to the Cluster's node that has the key, instead of the channel's name.
func (c *Call) Via(key string) { c.via = key }

// command has the script's SHA-1, or its text if whole.
func (c *Call) command(b rueidis.Builder, whole bool) rueidis.Completed {
	if c.Script == nil {
		if c.args[0] == ShardPublish {
			return b.Spublish().Channel(c.keys[0]).Message(c.args[1]).Build()
		}
		// In a Cluster any node takes a PUBLISH, but order needs one and the same.
		key := c.via
		if key == "" {
			key = c.keys[0]
		}
		return b.Publish().Channel(c.keys[0]).Message(c.args[1]).Build().SetSlot(key)
	}
	verb, text := "EVALSHA", c.Script.sha
	if whole {
		verb, text = "EVAL", c.Script.text
	}
	return b.Arbitrary(verb, text, countNames[c.nkeys]).Keys(c.keys[:min(c.nkeys, len(c.keys))]...).Keys(c.more[0]...).
		Args(c.args[:c.nargs]...).Args(c.more[1]...).Build()
}

func isUnknown(err error) bool {
	failure, ok := rueidis.IsRedisErr(err)
	return ok && failure.IsNoScript()
}

// Run does a call and explains its error.
func Run(ctx context.Context, client *servers.Client, c *Call) (rueidis.RedisResult, error) {
	result := client.Do(ctx, c.command(client.B(), false))
	if isUnknown(result.Error()) {
		result = client.Do(ctx, c.command(client.B(), true))
	}
	if err := result.Error(); err != nil {
		return result, client.Explain(err)
	}
	return result, nil
}

// Send does a PUBLISH. noReceiver: Redis knows that there is none. A server of a Cluster counts only its own receivers,
// so it does not know.
func Send(ctx context.Context, client *servers.Client, name, data string) (noReceiver bool, err error) {
	var c Call
	c.Message(Publish, name, data)
	result, err := Run(ctx, client, &c)
	if err != nil || client.Cluster() {
		return false, err
	}
	receivers, err := result.AsInt64()
	return receivers == 0, err
}

// RunAll does at most servers.MaxPipeline calls, mostly in one round trip. It does not explain errors. It returns cmds
// for further use.
func RunAll(ctx context.Context, client *servers.Client, calls []Call, cmds []rueidis.Completed) ([]rueidis.RedisResult, []rueidis.Completed) {
	cmds = cmds[:0]
	for i := range calls {
		cmds = append(cmds, calls[i].command(client.B(), false))
	}
	results := client.DoMulti(ctx, cmds)
	var again []int
	for i := range results {
		if results[i].NonRedisError() != nil {
			cmds = nil // the connection may still use it
			continue
		}
		if isUnknown(results[i].Error()) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return results, cmds
	}
	// Redis does not have these scripts yet, or not any more.
	var whole []rueidis.Completed
	for _, i := range again {
		whole = append(whole, calls[i].command(client.B(), true))
	}
	for k, result := range client.DoMulti(ctx, whole) {
		results[again[k]] = result
	}
	return results, cmds
}
