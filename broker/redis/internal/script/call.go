package script

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis/internal/conn"
)

// Verbs that publish a message, by plain PUB/SUB and by that which stays in a slot of
// a Cluster.
const (
	Publish      = "publish"
	ShardPublish = "spublish"
)

// countNames are the numbers of keys, as Redis wants them.
var countNames = [...]string{"0", "1", "2", "3", "4"}

// Call is one execution of a script with at most 4 keys and 11 arguments, or a bare
// PUBLISH if it has no script. It can be made into a command more than once.
type Call struct {
	Script *Script
	nkeys  int
	nargs  int
	via    string
	keys   [4]string
	args   [11]string
}

// Key adds a key.
func (c *Call) Key(name string) { c.keys[c.nkeys] = name; c.nkeys++ }

// Arg adds an argument.
func (c *Call) Arg(value string) { c.args[c.nargs] = value; c.nargs++ }

// Message makes c, which has to be zero, publish data on a channel by one of the verbs.
func (c *Call) Message(verb, name, data string) {
	c.keys[0] = name
	c.Arg(verb)
	c.Arg(data)
}

// Via has a bare PUBLISH sent to the node of a Cluster that has the key, in place of
// the one that the channel's name belongs to.
func (c *Call) Via(key string) { c.via = key }

// command with the script's SHA-1, or with its text if whole.
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
	return b.Arbitrary(verb, text, countNames[c.nkeys]).Keys(c.keys[:c.nkeys]...).Args(c.args[:c.nargs]...).Build()
}

// isUnknown tells that Redis wants the script's text.
func isUnknown(err error) bool {
	failure, ok := rueidis.IsRedisErr(err)
	return ok && failure.IsNoScript()
}

// Run does a call and explains its error.
func Run(ctx context.Context, client *conn.Client, c *Call) (rueidis.RedisResult, error) {
	result := client.Do(ctx, c.command(client.B(), false))
	if isUnknown(result.Error()) {
		result = client.Do(ctx, c.command(client.B(), true))
	}
	if err := result.Error(); err != nil {
		return result, client.Explain(err)
	}
	return result, nil
}

// RunAll does calls in as few round trips as may be, at most conn.MaxPipeline of
// them; their errors are not explained. cmds is scratch space, which is returned for
// further use.
func RunAll(ctx context.Context, client *conn.Client, calls []Call, cmds []rueidis.Completed) ([]rueidis.RedisResult, []rueidis.Completed) {
	cmds = cmds[:0]
	for i := range calls {
		cmds = append(cmds, calls[i].command(client.B(), false))
	}
	results := client.DoMulti(ctx, cmds)
	var again []int
	for i := range results {
		if results[i].NonRedisError() != nil {
			cmds = nil // still used by the connection, perhaps
			continue
		}
		if isUnknown(results[i].Error()) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return results, cmds
	}
	// The scripts were flushed, or never sent: now with their texts, in order.
	var whole []rueidis.Completed
	for _, i := range again {
		whole = append(whole, calls[i].command(client.B(), true))
	}
	for k, result := range client.DoMulti(ctx, whole) {
		results[again[k]] = result
	}
	return results, cmds
}
