// Package expression evaluates conditions on connections in the Common Expression Language
// (docs/connections.md#expressions).
package expression

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
)

const (
	// In bytes.
	MaxLength = 4 << 10
	// maxCost bounds an evaluation for one connection, in the units of CEL, about an operation each: well below a
	// millisecond.
	maxCost = 20_000
	// After so many iterations of a comprehension the evaluation looks whether its time is over.
	checks = 100
)

var language = sync.OnceValues(func() (*cel.Env, error) {
	text, number := cel.StringType, cel.IntType
	token := cel.MapType(text, cel.DynType)
	return cel.NewEnv(
		cel.Variable("client", text), cel.Variable("user", text), cel.Variable("node", text), cel.Variable("addr", text),
		cel.Variable("transport", text), cel.Variable("protocol", text), cel.Variable("app_name", text), cel.Variable("app_version", text),
		cel.Variable("connected_at_ms", number), cel.Variable("now_ms", number), cel.Variable("ping_pong_latency_ms", number),
		cel.Variable("queue", number), cel.Variable("commands", number),
		cel.Variable("labels", cel.MapType(text, text)), cel.Variable("meta", cel.DynType),
		cel.Variable("channels", cel.MapType(text, cel.MapType(text, cel.DynType))), cel.Variable("connection_token", token),
	)
})

// Compile returns the condition of an expression. An error says where it is wrong.
func Compile(text string) (inspect.Condition, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("it has %d bytes, which is more than %d", len(text), MaxLength)
	}
	env, err := language()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%s: %w", quoted(text), oneLine(issues))
	}
	if of := ast.OutputType(); !of.IsExactType(cel.BoolType) && !of.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%s is of the type %s, and has to be true or false", quoted(text), of)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checks))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quoted(text), err)
	}
	return func(ctx context.Context, c *inspect.Connection) (bool, error) {
		out, _, err := program.ContextEval(ctx, &variables{c: c, now: time.Now().UnixMilli()})
		if err != nil {
			return false, fmt.Errorf("%s for client %s: %w", quoted(text), c.Client, err)
		}
		yes, ok := out.Value().(bool)
		if !ok {
			return false, fmt.Errorf("%s for client %s is of the type %s, and has to be true or false", quoted(text), c.Client, out.Type().TypeName())
		}
		return yes, nil
	}, nil
}

// oneLine returns the first issue: the errors of CEL have several lines.
func oneLine(issues *cel.Issues) error {
	first := issues.Errors()[0]
	text := strings.ReplaceAll(first.Message, "\n", " ")
	if line := first.Location.Line(); line > 0 {
		text = fmt.Sprintf("line %d, column %d: %s", line, first.Location.Column()+1, text)
	}
	return errors.New(text)
}

func quoted(text string) string {
	const limit = 200
	if len(text) <= limit {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:limit], "")) + "…"
}

// variables has the variables for one connection. Expensive ones are made once: CEL asks each time that the expression
// names a variable, and does not count the cost.
type variables struct {
	c              *inspect.Connection
	now            int64
	meta, channels any
}

// Parent implements cel.Activation.
func (v *variables) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	c := v.c
	switch name {
	case "client":
		return c.Client, true
	case "user":
		return c.User, true
	case "node":
		return c.Node, true
	case "addr":
		return c.Addr, true
	case "transport":
		return c.Transport, true
	case "protocol":
		return c.Protocol, true
	case "app_name":
		return c.AppName, true
	case "app_version":
		return c.AppVersion, true
	case "labels":
		if c.Labels == nil {
			return map[string]string{}, true
		}
		return c.Labels, true
	}
	return v.more(name)
}

func (v *variables) more(name string) (any, bool) {
	c := v.c
	switch name {
	case "connected_at_ms":
		return c.ConnectedAt.UnixMilli(), true
	case "now_ms":
		return v.now, true
	case "ping_pong_latency_ms":
		if c.Latency < 0 {
			return int64(-1), true
		}
		return c.Latency.Milliseconds(), true
	case "queue":
		return int64(c.Queue), true
	case "commands":
		return int64(c.Commands), true
	case "meta":
		if v.meta == nil {
			v.meta = metaOf(c.Meta)
		}
		return v.meta, true
	case "channels":
		if v.channels == nil {
			v.channels = channelsOf(c.Channels)
		}
		return v.channels, true
	case "connection_token":
		return tokenOf(c.Token), true
	}
	return nil, false
}

func metaOf(raw []byte) any {
	if len(raw) == 0 {
		return map[string]any{}
	}
	var meta any
	if err := json.Unmarshal(raw, &meta); err != nil {
		return errMeta
	}
	return meta
}

var errMeta = errors.New("meta is not JSON")

func channelsOf(subs map[string]inspect.Subscription) map[string]map[string]any {
	all := make(map[string]map[string]any, len(subs))
	for name, s := range subs {
		of := map[string]any{"source": int64(s.Source), "server_side": s.ServerSide, "token": tokenOf(s.Token)}
		if s.Positioned {
			of["offset"], of["epoch"] = int64(s.Offset), s.Epoch
		}
		all[name] = of
	}
	return all
}

func tokenOf(t *channel.Token) map[string]any {
	of := map[string]any{}
	if t != nil {
		of["uid"], of["issued_at"] = t.ID, t.IssuedAt
	}
	return of
}
