package recovery

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// maxSize is in bytes.
const maxSize = 1 << 20

// PageKey identifies the contents of a page: a map with a stream has the same entries whenever its top is the same.
type PageKey struct {
	Channel, Cursor string
	Limit           int
	Top             channel.StreamPosition
	// Since is the offset of the first page: entries that changed later are left out.
	Since uint64
	// Form is hub.Escaped or 0.
	Form     hub.Form
	Encoding protocol.Encoding
}

// PageCache shares encoded pages of maps, for example when thousands of subscribers come back at once: 100 entries cost
// some 15 us to encode, and 1 us to copy. It keeps the latest pages. The zero value is empty. It is for one goroutine.
type PageCache struct {
	pages map[PageKey][]byte
	order []PageKey // the oldest first
	size  int
}

// Fill puts entries into a result, which is valid until the next use of results. If share is set, k identifies the entries.
func (c *PageCache) Fill(r *protocol.SubscribeResult, k PageKey, entries []*channel.Publication, share bool, results *hub.Results) error {
	if share {
		if r.StateEncoded = c.pages[k]; r.StateEncoded != nil {
			return nil
		}
	}
	list := results.Whole(entries, k.Form, k.Encoding)
	if !share || len(list) == 0 {
		r.State = list
		return nil
	}
	var err error
	if r.StateEncoded, err = encode(list, k.Encoding); err == nil {
		c.put(k, r.StateEncoded)
	}
	return err
}

func (c *PageCache) put(k PageKey, page []byte) {
	if len(page) > maxSize/2 {
		return
	}
	if c.pages == nil {
		c.pages = make(map[PageKey][]byte)
	}
	for c.size += len(page); c.size > maxSize; c.order = c.order[1:] {
		c.size -= len(c.pages[c.order[0]])
		delete(c.pages, c.order[0])
	}
	c.pages[k], c.order = page, append(c.order, k)
}

// What encloses the entries in JSON.
const before, behind = `{"state":[`, `]}`

func encode(entries []*protocol.Publication, e protocol.Encoding) ([]byte, error) {
	r := protocol.SubscribeResult{State: entries}
	if e == protocol.Protobuf {
		return r.AppendProto(nil), nil
	}
	text, err := r.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return text[len(before) : len(text)-len(behind)], nil
}
