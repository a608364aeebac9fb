package api

import "context"

// The messages, both of their encodings and the methods are generated from api.proto (tools/generate). To
// change a message, change the schema and run make generate.

// Request is the request of a command: a pointer to one of this package's messages. Unknown members of the JSON are
// ignored; errors name the position and the expected value.
type Request interface {
	UnmarshalJSON(data []byte) error
	UnmarshalProto(data []byte) error
	execute(ctx context.Context, s Service) (Result, error)
	// target returns the method of the request, and the channel that it names; "" if it names none, or several.
	target() (Method, string)
}

// Result is the result of a command that succeeded, or, in a batch, an *Error. AppendJSON
// fails if bytes that must be embedded as JSON are not JSON: payloads in a history, infos
// in a presence, answers of RPC handlers.
type Result interface {
	AppendJSON(dst []byte) ([]byte, error)
	AppendProto(dst []byte) []byte
	// SizeProto returns how many bytes AppendProto appends.
	SizeProto() int
}

var methodByName = func() map[string]Method {
	byName := make(map[string]Method, len(methodNames))
	for m, name := range methodNames {
		byName[name] = Method(m)
	}
	return byName
}()

// Methods returns all of them.
func Methods() []Method {
	all := make([]Method, len(methodNames))
	for m := range all {
		all[m] = Method(m)
	}
	return all
}

// MethodByName finds a method by its name, which is in lower case.
func MethodByName(name string) (Method, bool) {
	m, ok := methodByName[name]
	return m, ok
}

// String returns the method's name.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return "unknown"
}
