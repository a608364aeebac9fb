package dictionary

import (
	"encoding/base64"
	"errors"

	"github.com/gyrohq/gyro/protocol"
)

// flag of a connect request and its result.
const flag = 1

// Memory has the last dictionary of a client. Its user calls one method at a time.
type Memory struct{ last *Dictionary }

// Offer offers compression to a server that may have a dictionary for a profile.
func (m *Memory) Offer(r *protocol.ConnectRequest, profile string) {
	r.Flag, r.Profile = flag, profile
	if m.last != nil {
		r.Dict = m.last.ID
	}
}

// Accept returns the dictionary that the server has chosen, at most limit bytes, or nil for none. All errors are of type
// *Error.
func (m *Memory) Accept(r *protocol.ConnectResult, limit int) (*Dictionary, error) {
	d, err := m.accept(r, limit)
	if err != nil {
		m.last = nil
	}
	return d, err
}

func (m *Memory) accept(r *protocol.ConnectResult, limit int) (*Dictionary, error) {
	if r.Flag&flag == 0 {
		return nil, nil
	}
	if r.Dict == nil {
		return nil, &Error{"it names no dictionary"}
	}
	data, err := base64.StdEncoding.DecodeString(r.Dict.DataB64)
	if err != nil {
		return nil, &Error{"a dictionary: " + err.Error()}
	}
	d := m.last
	data = append(data, r.Dict.Data...)
	if len(data) > 0 {
		if d, err = Learn(r.Dict.ID, data, limit); err != nil {
			return nil, err
		}
	}
	if d == nil || d.ID != r.Dict.ID {
		return nil, &Error{"it names a dictionary that the client does not have"}
	}
	m.last = d
	return d, nil
}

// Wrong reports whether the server compresses wrongly. Then the dictionary is forgotten.
func (m *Memory) Wrong(err error) bool {
	wrong := errors.As(err, new(*Error))
	if wrong {
		m.last = nil
	}
	return wrong
}
