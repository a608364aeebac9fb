package probe

import (
	"encoding/json"
	"errors"
	"fmt"

	fdelta "github.com/shadowspore/fossil-delta"

	"github.com/gyrohq/gyro/protocol"
)

// Whole restores the payloads of a subscription with deltas.
type Whole struct{ base []byte }

// Restore returns the payload of the next publication.
func (w *Whole) Restore(e protocol.Encoding, p *protocol.Publication) (data []byte, err error) {
	defer func() {
		if broken := recover(); broken != nil { // the library panics if a patch is cut off
			err = fmt.Errorf("a patch is malformed: %v", broken)
		}
	}()
	data = p.Data
	if e == protocol.JSON {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return nil, fmt.Errorf("data is not a string, although deltas were agreed upon: %s", data)
		}
		data = []byte(text)
	}
	if p.Delta {
		if w.base == nil {
			return nil, errors.New("there is nothing that the patch could be applied to")
		}
		if data, err = fdelta.Apply(w.base, data); err != nil {
			return nil, fmt.Errorf("the patch does not fit: %w", err)
		}
	}
	w.base = data
	return data, nil
}
