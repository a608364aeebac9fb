package services

import (
	"errors"
	"strings"
)

// OptionError is the error of a connection that another value of an option might avoid.
type OptionError struct {
	Option string
	Err    error
}

// Error implements error.
func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

// Blame returns an error that names an option. If err names an option, that option stays.
func Blame(option string, err error) error {
	if inner, ok := errors.AsType[*OptionError](err); ok {
		option, err = inner.Option, inner.Err
	}
	return &OptionError{option, err}
}

// handshakes finds the option by the text of an error of TLS: many clients pass nothing else on.
var handshakes = []struct{ part, option string }{
	{"signed by unknown authority", ".server_ca_pem"},
	{"certificate is valid for", ".server_name"},
	{"certificate is not valid for", ".server_name"},
	{"cannot validate certificate for", ".server_name"},
	{"remote error: tls: certificate required", ".cert_pem"},
	{"remote error: tls: bad certificate", ".cert_pem"},
	{"remote error: tls: unknown certificate authority", ".cert_pem"},
	{"first record does not look like a TLS handshake", ".enabled"},
}

// CutOff returns the options that may be to blame if the other side closed a connection without a word: the given ones
// and, with TLS, the certificate. It returns "" for other errors.
func CutOff(options string, secure bool, err error) string {
	text := err.Error()
	switch {
	case !strings.HasSuffix(text, "EOF") && !strings.Contains(text, "connection reset by peer") && !strings.Contains(text, "broken pipe"):
		return ""
	case secure: // the refusal of a certificate gets lost if this side writes meanwhile
		return options + ", tls.cert_pem"
	}
	return options
}

// TLSOption returns the option of a TLS section that is to blame for an error, "" for none.
func TLSOption(section string, err error) string {
	text := err.Error()
	for _, h := range handshakes {
		if strings.Contains(text, h.part) {
			return section + h.option
		}
	}
	return ""
}
