package mobile

import "github.com/gyrohq/gyro/client"

// Filter is a condition on the tags of publications (docs/bandwidth.md). A server that finds it wrong ends the subscription with
// code 107.
type Filter struct{ node *client.FilterNode }

// FilterTag compares a tag with a value. cmp is one of eq, neq, sw (begins with), ew (ends with), ct (contains), gt, gte, lt and lte
// (of decimal numbers), and, without a value, ex (is there) and nex.
func FilterTag(key, cmp, value string) *Filter {
	return &Filter{&client.FilterNode{Key: key, Cmp: cmp, Val: value}}
}

// FilterTagIn holds for publications whose tag is one of some values.
func FilterTagIn(key string, values *Strings) *Filter {
	return &Filter{&client.FilterNode{Key: key, Cmp: "in", Vals: of(values)}}
}

// FilterTagNotIn holds for publications whose tag is none of some values.
func FilterTagNotIn(key string, values *Strings) *Filter {
	return &Filter{&client.FilterNode{Key: key, Cmp: "nin", Vals: of(values)}}
}

// FilterAnd holds if both filters do.
func FilterAnd(a, b *Filter) *Filter { return combine("and", a, b) }

// FilterOr holds if one of the filters does.
func FilterOr(a, b *Filter) *Filter { return combine("or", a, b) }

// FilterNot holds if the filter does not.
func FilterNot(f *Filter) *Filter { return combine("not", f) }

func combine(op string, filters ...*Filter) *Filter {
	node := &client.FilterNode{Op: op}
	for _, f := range filters {
		if f != nil {
			node.Nodes = append(node.Nodes, f.node)
		}
	}
	return &Filter{node}
}

// SetFilter replaces the filter, from the next time that the client subscribes; nil: none.
func (s *Subscription) SetFilter(f *Filter) { s.s.SetFilter(f.of()) }

func (f *Filter) of() *client.FilterNode {
	if f == nil {
		return nil
	}
	return f.node
}
