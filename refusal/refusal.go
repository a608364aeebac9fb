// Package refusal carries the reason for a refusal from where it is decided to the log.
//
// Code that refuses something returns Because: an error that answers the caller as before, and holds the reason and the
// setting that would allow it. Code that knows the caller gives this error to a Reporter, which writes one line. The
// caller gets the answer alone, so the reason may name settings, but no secret.
package refusal

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// Reason is an error with the reason for a refusal. Any number of goroutines may read it. It must not be changed once
// it was returned.
type Reason struct {
	// Answer is the error for the caller, such as a *protocol.Error or a protocol.Disconnect. Not nil.
	Answer error
	// Key is the setting that would allow the request: a key of the server's configuration; in the library a field of
	// gyro.Config, or a handler. Empty if no setting would.
	Key string
	// Text says why, in a clause. It quotes nothing that the caller sent, so that there are
	// few different texts.
	Text string
	// User is the user in refused credentials, for lines about callers without a user. Unverified: the credentials are not
	// verified, so they may be forged. The line has the user as "user" or as "unverified_user".
	User       string
	Unverified bool
}

// Error implements error.
func (r *Reason) Error() string { return r.Answer.Error() + ": " + r.Text }

// Unwrap returns the answer.
func (r *Reason) Unwrap() error { return r.Answer }

// Because returns a *Reason.
func Because(answer error, key, text string) error {
	return &Reason{Answer: answer, Key: key, Text: text}
}

// Answer returns an error with the answer, and the reason of err.
func Answer(answer, err error) error {
	out := &Reason{Answer: answer}
	if r, ok := errors.AsType[*Reason](err); ok {
		*out = *r
		out.Answer = answer
	} else {
		out.Text = err.Error()
	}
	return out
}

// Named returns err, a *Reason, with the user in refused credentials. Another error, or one without a user, stays as it
// is.
func Named(err error, user string, verified bool) error {
	r, ok := err.(*Reason) //nolint:errorlint // an error around it would be lost
	if !ok || user == "" {
		return err
	}
	named := *r // which others may share
	named.User, named.Unverified = user, !verified
	return &named
}

// Explain returns the setting and the text of a Reason in err, or else the error's text.
func Explain(err error) (key, text string) {
	if r, ok := errors.AsType[*Reason](err); ok {
		return r.Key, r.Text
	}
	return "", err.Error()
}

// Refusal is a refused request.
type Refusal struct {
	// Kind is the message of the line, a constant. Lines of one kind are limited together.
	Kind string
	// Level of the line; zero is slog.LevelInfo.
	Level slog.Level
	// Client is the client's ID and User its user. A request before there is a client has Addr and Origin. Method is
	// from an RPC or the server API, Path from a request.
	Client, User, Addr, Origin, Channel, Method, Path string
	Code                                              uint32
	UnverifiedUser                                    string // of credentials that are not verified
	Key, Reason                                       string
}

// name takes over the user of a reason, unless the caller is known.
func (f *Refusal) name(err error) {
	r, ok := errors.AsType[*Reason](err)
	switch {
	case !ok || f.User != "":
	case r.Unverified:
		f.UnverifiedUser = r.User
	default:
		f.User = r.User
	}
}

// Reporter writes refusals to a log.
type Reporter struct {
	// Log is a logger of logging.Wrap, so that Report never blocks, and few of many refusals are written.
	Log *slog.Logger
	// Observe, if it is not nil, may change each refusal before it is written. Any goroutine calls it, also loops, so it
	// must not block.
	Observe func(f *Refusal)
}

// Counter is a handler of a log that counts all refusals, of any level, also those that the log leaves out. Any
// goroutine calls CountRefusal, also loops, so it must not block. It may keep the texts of f, but not f.
type Counter interface {
	slog.Handler
	CountRefusal(f *Refusal)
}

// counter finds the counter behind handlers that wrap another one and have the method Unwrap.
func counter(h slog.Handler) Counter {
	for {
		if c, ok := h.(Counter); ok {
			return c
		}
		w, ok := h.(interface{ Unwrap() slog.Handler })
		if !ok {
			return nil
		}
		h = w.Unwrap()
	}
}

// maxText bounds the bytes that a line shows of a text.
const maxText = 256

// Report writes a line with the refusal, without empty attributes. err is the answer, whose reason it adds. It costs the
// same for texts of any length.
func (r Reporter) Report(f Refusal, code uint32, err error) {
	f.Code = code
	f.name(err)
	if f.Key, f.Reason = Explain(err); r.Observe != nil {
		r.Observe(&f)
	}
	if c := counter(r.Log.Handler()); c != nil {
		c.CountRefusal(&f)
	}
	ctx := context.Background()
	if !r.Log.Enabled(ctx, f.Level) {
		return
	}
	attrs := make([]slog.Attr, 0, 11)
	for _, a := range [...]struct{ name, text string }{
		{"client", f.Client}, {"user", f.User}, {"unverified_user", f.UnverifiedUser}, {"addr", f.Addr}, {"origin", f.Origin},
		{"channel", f.Channel}, {"method", f.Method}, {"path", f.Path},
	} {
		if a.text != "" {
			attrs = append(attrs, slog.String(a.name, cut(a.text)))
		}
	}
	if code != 0 {
		attrs = append(attrs, slog.Uint64("code", uint64(code)))
	}
	// As an error, each new reason of a kind is written, however many others were.
	attrs = append(attrs, slog.Any("reason", reason(cut(f.Reason))))
	if f.Key != "" {
		attrs = append(attrs, slog.String("key", f.Key))
	}
	r.Log.LogAttrs(ctx, f.Level, f.Kind, attrs...)
}

type reason string

func (r reason) Error() string { return string(r) }

// cut keeps a text valid UTF-8.
func cut(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}
