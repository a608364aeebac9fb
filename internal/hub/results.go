package hub

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Results makes the publications of a subscribe result, for subscribers of the form. With
// delta, each is a patch of the one before. The error is a protocol.Disconnect: a payload
// does not fit the encoding.
func Results(pubs []*channel.Publication, form Form, e protocol.Encoding) ([]*protocol.Publication, error) {
	if len(pubs) == 0 {
		return nil, nil
	}
	out := make([]*protocol.Publication, len(pubs))
	var prev *channel.Publication
	for i, p := range pubs {
		q := new(protocol.Publication)
		FillPublication(q, p)
		if form&Escaped != 0 {
			var (
				patch, text []byte
				err         error
			)
			if q.Data, q.Delta, err = DeltaData(&patch, &text, e, prev, p); err != nil {
				return nil, protocol.DisconnectInappropriateProtocol
			}
			prev = p
		}
		out[i] = q
	}
	return out, nil
}
