package api

import "context"

// Messages, codecs and methods are generated from api.proto by make generate.

// Request is a pointer to a request message. Unknown members of the JSON are ignored; errors name position and expected
// value.
type Request interface {
	UnmarshalJSON(data []byte) error
	UnmarshalProto(data []byte) error
	execute(ctx context.Context, s Service) (Result, error)
	// target returns the method, and the one channel that the request names, else "".
	target() (Method, string)
}

// Result is a result message or, in a batch, an *Error. AppendJSON fails if embedded bytes are not JSON: payloads,
// infos, answers of RPC handlers.
type Result interface {
	AppendJSON(dst []byte) ([]byte, error)
	AppendProto(dst []byte) []byte
	SizeProto() int
}

var methodByName = func() map[string]Method {
	byName := make(map[string]Method, len(methodNames))
	for m, name := range methodNames {
		byName[name] = Method(m)
	}
	return byName
}()

// Methods returns all methods.
func Methods() []Method {
	all := make([]Method, len(methodNames))
	for m := range all {
		all[m] = Method(m)
	}
	return all
}

// MethodByName finds a method by its name in lower case.
func MethodByName(name string) (Method, bool) {
	m, ok := methodByName[name]
	return m, ok
}

// String returns the name in lower case.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return "unknown"
}
