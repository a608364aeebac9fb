package api

import "context"

// Rights of a sender. Errors wrap ErrPermissionDenied and name the key that would allow it. Any goroutine may call it.
type Rights interface {
	Method(m Method) error
	// Channel returns an error if commands of the sender may not name the channel.
	Channel(ch string) error
	// EveryChannel returns an error if there are channels that they may not name.
	EveryChannel() error
}

// With returns an executor whose Execute holds requests to rights, with each command of a batch and each channel of a
// broadcast. The method batch needs no right, and the result of channels has allowed ones only.
func (e *Executor) With(r Rights) *Executor {
	out := *e
	out.rights = r
	return &out
}

// permit returns an error unless the rights allow a request.
func (e *Executor) permit(ctx context.Context, r Request) *Error {
	if e.rights == nil {
		return nil
	}
	m, ch := r.target()
	if m == MethodBatch {
		return nil
	}
	err := e.rights.Method(m)
	if err == nil && ch != "" {
		err = e.rights.Channel(ch)
	}
	if err != nil {
		return e.failed(ctx, m, ch, err)
	}
	return nil
}

// mayName returns an error unless the rights allow a channel.
func (e *Executor) mayName(ch string) error {
	if e.rights == nil || ch == "" {
		return nil
	}
	return e.rights.Channel(ch)
}
