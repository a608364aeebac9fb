// Package permission explains for the server API what happens if a client subscribes to a channel.
package permission

import (
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/grant"
	"github.com/gyrohq/gyro/server/namespace"
)

// Explain explains the decision of the rules on a client without a token, and what the namespace gives
// subscribers.
func Explain(channels *namespace.Resolver, name string, f namespace.Facts) *api.SubscribeExplanation {
	e := channels.ExplainSubscribe(name, f, false)
	out := &api.SubscribeExplanation{
		Decision: api.Allowed, Reason: e.Reason, Key: e.Key,
		Token: channels.ExplainSubscribe(name, f, true).Decision.By == namespace.Token,
	}
	switch {
	case e.Decision.By != namespace.Rules:
		out.Decision = api.Backend
	case e.Decision.Err != nil:
		out.Decision = api.Refused
	}
	for _, c := range e.Checks {
		out.Checks = append(out.Checks, api.Check{Text: c.Text, Holds: c.Holds, Key: c.Key, Value: c.Value})
	}
	if e.Namespace != nil {
		out.Namespace, out.Options = e.Namespace.Name, grant.Describe(e.Namespace)
	}
	return out
}
