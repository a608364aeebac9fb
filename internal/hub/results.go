package hub

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// Results returns publications for the result of a command, in a form. In the form Escaped,
// each is a patch of the one before. The error is a protocol.Disconnect if a payload does not
// fit the encoding.
func Results(pubs []*channel.Publication, form Form, e protocol.Encoding) ([]*protocol.Publication, error) {
	if len(pubs) == 0 {
		return nil, nil
	}
	out := make([]*protocol.Publication, len(pubs))
	all := make([]protocol.Publication, len(pubs))
	var prev *channel.Publication
	for i, p := range pubs {
		q := &all[i]
		fillPublication(q, p)
		out[i] = q
		if form&Escaped == 0 {
			if e == protocol.JSON && !q.DataChecked && len(q.Data) > 0 {
				ok, lines := jsonwire.Check(q.Data)
				if q.DataChecked = !lines; !ok {
					return nil, protocol.DisconnectInappropriateProtocol
				}
			}
			continue
		}
		var patch, text []byte
		var err error
		if q.Data, q.Delta, err = deltaData(&patch, &text, e, prev, p); err != nil {
			return nil, protocol.DisconnectInappropriateProtocol
		}
		q.DataChecked, prev = true, p
	}
	return out, nil
}
