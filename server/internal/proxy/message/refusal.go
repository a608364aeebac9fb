package message

import "fmt"

// Answer is a response that may refuse. A disconnect in it has precedence over an error, and an error over a result.
type Answer interface {
	Refusal() (*Error, *Disconnect)
	// Refuse replaces the result.
	Refuse(*Error, *Disconnect)
}

// Refusal implements Answer.
func (m *ConnectResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *ConnectResponse) Refuse(e *Error, d *Disconnect) {
	*m = ConnectResponse{Error: e, Disconnect: d}
}

// Refusal implements Answer.
func (m *RefreshResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *RefreshResponse) Refuse(e *Error, d *Disconnect) {
	*m = RefreshResponse{Error: e, Disconnect: d}
}

// Refusal implements Answer.
func (m *SubscribeResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *SubscribeResponse) Refuse(e *Error, d *Disconnect) {
	*m = SubscribeResponse{Error: e, Disconnect: d}
}

// Refusal implements Answer.
func (m *PublishResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *PublishResponse) Refuse(e *Error, d *Disconnect) {
	*m = PublishResponse{Error: e, Disconnect: d}
}

// Refusal implements Answer.
func (m *RPCResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *RPCResponse) Refuse(e *Error, d *Disconnect) { *m = RPCResponse{Error: e, Disconnect: d} }

// Refusal implements Answer.
func (m *SubRefreshResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *SubRefreshResponse) Refuse(e *Error, d *Disconnect) {
	*m = SubRefreshResponse{Error: e, Disconnect: d}
}

// Refusal implements Answer.
func (m *MapPublishResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *MapPublishResponse) Refuse(e *Error, d *Disconnect) {
	*m = MapPublishResponse{Error: e, Disconnect: d}
}

// Refusal implements Answer.
func (m *MapRemoveResponse) Refusal() (*Error, *Disconnect) { return m.Error, m.Disconnect }

// Refuse implements Answer.
func (m *MapRemoveResponse) Refuse(e *Error, d *Disconnect) {
	*m = MapRemoveResponse{Error: e, Disconnect: d}
}

// Failure returns the error in the answer; nil if there is none.
func (m *SharedPollRefreshResponse) Failure() error {
	if m.Error == nil {
		return nil
	}
	return fmt.Errorf("the backend answers with error %d: %q", m.Error.Code, m.Error.Message)
}
