package httpstream

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// appendJSON appends the answer as JSON, and a line break.
func (a *polled) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if a.subs != nil {
		b = append(b, `"pushes":[`...)
		for i, p := range a.pushes {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, p...)
		}
		b = append(b, `],"subs":{`...)
		for i, ch := range slices.Sorted(maps.Keys(a.subs)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(jsonwire.AppendString(b, ch), ':')
			b = a.subs[ch].appendJSON(b)
		}
		b = append(b, `},`...)
	}
	b = appendNames(b, `"lost":[`, a.lost)
	b = appendNames(b, `"refused":[`, a.refused)
	if len(a.data) > 0 {
		b = append(append(append(b, `"data":`...), a.data...), ',')
	}
	if a.disconnect != nil {
		b, _ = a.disconnect.AppendJSON(append(b, `"disconnect":`...)) // it has no payload that could be wrong
		b = append(b, ',')
	}
	return append(jsonwire.EndObject(b), '\n')
}

func (p *position) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if p.recover {
		b = append(b, `"recover":true,`...)
	}
	if p.offset > 0 {
		b = append(strconv.AppendUint(append(b, `"offset":`...), p.offset, 10), ',')
	}
	if p.epoch != "" {
		b = append(jsonwire.AppendString(append(b, `"epoch":`...), p.epoch), ',')
	}
	if p.delta != "" {
		b = append(jsonwire.AppendString(append(b, `"delta":`...), p.delta), ',')
	}
	return jsonwire.EndObject(b)
}

// appendNames appends a member with the names of channels, unless there are none.
func appendNames(b []byte, begin string, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	slices.Sort(names)
	b = append(b, begin...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonwire.AppendString(b, name)
	}
	return append(b, "],"...)
}
