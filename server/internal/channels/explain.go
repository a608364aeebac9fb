package channels

import (
	"strconv"

	"github.com/gyrohq/gyro/refusal"
)

// Check is a condition of a decision.
type Check struct {
	// Text of the condition, a clause.
	Text string
	// Key is the setting of the condition; empty if it has none.
	Key, Value string
	Holds      bool
}

// Explanation of a decision: the conditions that it checked, in their order.
type Explanation struct {
	// Namespace of the channel; nil if unknown.
	Namespace *Options
	Checks    []Check
	Decision  Decision
	// Key and Reason of a refusal, as refusal.Explain returns them.
	Key, Reason string
}

// ExplainSubscribe explains the decision on a subscribe command. ForClient and DecideSubscribe make the decision and
// record its conditions.
func (r *Resolver) ExplainSubscribe(name string, f Facts, hasToken bool) Explanation {
	var t trace
	ch, err := r.forClient(name, &t)
	e := Explanation{Namespace: ch.Options}
	if err != nil {
		e.Decision = denied(err)
	} else {
		e.Decision = ch.decideSubscribe(f, ch.Type, hasToken, &t)
	}
	e.Checks = t.checks
	if e.Decision.Err != nil {
		e.Key, e.Reason = refusal.Explain(e.Decision.Err)
	}
	return e
}

// trace records the checks of a decision. A nil trace records nothing and costs nothing.
type trace struct{ checks []Check }

func (t *trace) name(holds bool, text, key, value string) bool {
	if t != nil {
		t.checks = append(t.checks, Check{text, key, value, holds})
	}
	return holds
}

func (t *trace) option(holds bool, text string, o *Options, option string) bool {
	if t != nil {
		t.checks = append(t.checks, Check{text, o.key(option), onOff(holds), holds})
	}
	return holds
}

func (t *trace) fact(holds bool, text string) bool { return t.name(holds, text, "", "") }

func (t *trace) permits(c Channel, p permission, f Facts) bool {
	if t != nil {
		t.option(p.client, "clients may "+p.operation, c.Options, p.prefix+"client")
		if f.User == "" {
			t.option(p.anonymous, "clients without a user may "+p.operation, c.Options, p.prefix+"anonymous")
		}
	}
	return p.to(f)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (t *trace) length(limit, size int) bool {
	value := ""
	if t != nil {
		value = strconv.Itoa(limit)
	}
	return !t.name(size <= limit, "the channel's name is short enough", "channel.max_length", value)
}

func (t *trace) known(known bool, r *Resolver, name string) bool {
	if t == nil {
		return known
	}
	if of := r.Namespace(name); of != "" {
		return t.name(known, "there is a namespace "+of, "channel.namespaces", "")
	}
	return t.name(known, "the channel has no namespace, so channel.without_namespace has its options", "channel.without_namespace", "")
}

func (t *trace) valid(valid bool, o *Options) bool {
	switch {
	case t == nil:
		return valid
	case o.regex != nil:
		return t.name(valid, "the channel's name matches channel_regex", o.key("channel_regex"), o.ChannelRegex)
	}
	return t.name(valid, "the channel's name is ASCII", o.key("channel_regex"), "")
}
