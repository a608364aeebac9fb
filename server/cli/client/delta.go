package client

import (
	"encoding/json"
	"errors"
	"fmt"

	fdelta "github.com/shadowspore/fossil-delta"

	"github.com/gyrohq/gyro/protocol"
)

// fossil is the name of the one kind of deltas.
const fossil = "fossil"

// whole restores the payloads of a subscription whose data are patches to the payload before: in streams that of the
// channel, elsewhere that of the key.
type whole struct {
	on    bool
	bases map[string][]byte // by key; "" in streams
}

// negotiated says whether the server sends deltas. Then all data is text in a JSON string. Bases stay over a reconnection.
func (w *whole) negotiated(on bool) {
	if w.on = on; on && w.bases == nil {
		w.bases = make(map[string][]byte)
	}
}

func (w *whole) forget() { clear(w.bases) }

// restore puts the whole payload into a publication.
func (w *whole) restore(pub *protocol.Publication) error {
	if !w.on {
		return nil
	}
	if pub.Removed {
		delete(w.bases, pub.Key)
		pub.Data = nil
		return nil
	}
	if len(pub.Data) == 0 { // entries of presence have none
		return nil
	}
	var text string
	if err := json.Unmarshal(pub.Data, &text); err != nil {
		return errors.New("data is not a string, although deltas were agreed upon")
	}
	pub.Data = []byte(text)
	if pub.Delta {
		base, ok := w.bases[pub.Key]
		if !ok {
			return errors.New("there is nothing that the delta could be applied to")
		}
		var err error
		if pub.Data, err = patch(base, pub.Data); err != nil {
			return err
		}
		pub.Delta = false
	}
	w.bases[pub.Key] = pub.Data
	return nil
}

// patch applies a patch. The library checks sums, but panics if a patch is cut off.
func patch(base, by []byte) (data []byte, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("a delta is malformed: %v", broken)
		}
	}()
	if data, err = fdelta.Apply(base, by); err != nil {
		return nil, fmt.Errorf("a delta cannot be applied: %w", err)
	}
	return data, nil
}
