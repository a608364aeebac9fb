package api

import "context"

// Rights are the rights of one sender of requests. Errors wrap ErrPermissionDenied and say which configuration key
// would allow it. The methods may be called from any goroutine.
type Rights interface {
	// Method returns an error if the sender may not call a method.
	Method(m Method) error
	// Channel returns an error if the sender's commands may not name a channel.
	Channel(ch string) error
	// EveryChannel returns an error if there are channels that the sender's commands may not name.
	EveryChannel() error
}

// With returns an executor whose Execute holds every request to rights: each command of a batch and each channel of a
// broadcast by itself. The method batch needs no right of its own, and the result of channels has only channels that
// the rights allow.
func (e *Executor) With(r Rights) *Executor {
	out := *e
	out.rights = r
	return &out
}

// permit returns an *Error unless the executor's rights, if it has any, allow a request.
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

// mayName returns an error unless the rights, if there are any, allow a channel.
func (e *Executor) mayName(ch string) error {
	if e.rights == nil || ch == "" {
		return nil
	}
	return e.rights.Channel(ch)
}
