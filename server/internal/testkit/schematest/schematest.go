// Package schematest calls and serves the gRPC services of published schemas for tests. The Protobuf runtime interprets
// the .proto file, as it does for users, so that the codec under test is on one side only. Tests write messages in
// Protobuf's text format: channel:"a" data:"\x00".
package schematest

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Schema is a .proto file with one service. Names that it does not have, and texts that are no messages, make a test
// panic.
type Schema struct {
	read func() protoreflect.FileDescriptor
}

// File returns a schema by its path from the folder of the test.
func File(path string) *Schema {
	return &Schema{read: sync.OnceValue(func() protoreflect.FileDescriptor {
		compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(path)}}}
		files, err := compiler.Compile(context.Background(), filepath.Base(path))
		if err != nil {
			panic(err)
		}
		return files[0]
	})}
}

// Message returns the message of a type that the text describes.
func (s *Schema) Message(name, text string) Message { return parse(s.message(name), text) }

// Encoded returns a message that is sent as these bytes. They need not be a valid message.
func (s *Schema) Encoded(name, data string) Message {
	m := Message{dynamicpb.NewMessage(s.message(name))}
	m.SetUnknown([]byte(data))
	return m
}

func (s *Schema) message(name string) protoreflect.MessageDescriptor {
	d := s.read().Messages().ByName(protoreflect.Name(name))
	if d == nil {
		panic("the schema has no message " + name)
	}
	return d
}

func (s *Schema) method(name string) protoreflect.MethodDescriptor {
	d := s.read().Services().Get(0).Methods().ByName(protoreflect.Name(name))
	if d == nil {
		panic("the schema has no method " + name)
	}
	return d
}

func parse(d protoreflect.MessageDescriptor, text string) Message {
	m := Message{dynamicpb.NewMessage(d)}
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		panic(fmt.Sprintf("%s %s: %v", d.Name(), text, err))
	}
	return m
}

// Message is a message of a schema.
type Message struct{ *dynamicpb.Message }

// Is reports whether the message is the one that the text describes.
func (m Message) Is(text string) bool { return proto.Equal(m, parse(m.Descriptor(), text)) }

// Has reports whether the message has a field, such as result.nodes.0, which is the first element of a list. The key of
// a map stands in place of the number.
func (m Message) Has(path string) bool {
	_, has := m.field(path)
	return has
}

// Text returns a field: strings and bytes as they are, numbers as decimals. A field that the message does not have
// is zero, and an element that a list or a map does not have is "".
func (m Message) Text(path string) string {
	v, _ := m.field(path)
	switch v := v.Interface().(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// Number returns a field that is a number.
func (m Message) Number(path string) float64 {
	n, err := strconv.ParseFloat(m.Text(path), 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (m Message) field(path string) (v protoreflect.Value, has bool) {
	v, has = protoreflect.ValueOfMessage(m.ProtoReflect()), true
	for part := range strings.SplitSeq(path, ".") {
		switch parent := v.Interface().(type) {
		case protoreflect.Message:
			d := parent.Descriptor().Fields().ByName(protoreflect.Name(part))
			if d == nil {
				panic(fmt.Sprintf("%s has no field %s", parent.Descriptor().FullName(), part))
			}
			v, has = parent.Get(d), parent.Has(d)
		case protoreflect.List:
			n, err := strconv.Atoi(part)
			if err != nil {
				panic(err)
			}
			if n >= parent.Len() {
				return protoreflect.Value{}, false
			}
			v = parent.Get(n)
		case protoreflect.Map:
			v = parent.Get(protoreflect.ValueOfString(part).MapKey())
			if has = v.IsValid(); !has {
				return v, false
			}
		default:
			panic("nothing is below " + part)
		}
	}
	return v, has
}

// Invoke calls a method that has one request and one answer.
func (s *Schema) Invoke(ctx context.Context, conn grpc.ClientConnInterface, method, request string, options ...grpc.CallOption) (Message, error) {
	d := s.method(method)
	answer := Message{dynamicpb.NewMessage(d.Output())}
	err := conn.Invoke(ctx, fullName(d), parse(d.Input(), request), answer, options...)
	return answer, err
}

// fullName is a method as gRPC names it.
func fullName(d protoreflect.MethodDescriptor) string {
	return "/" + string(d.Parent().FullName()) + "/" + string(d.Name())
}

// Stream is the end of a call at the client.
type Stream struct {
	grpc.ClientStream
	method protoreflect.MethodDescriptor
}

// Open calls a method that has a stream of answers. No request follows, unless there is none: then the call stays open.
func (s *Schema) Open(ctx context.Context, conn grpc.ClientConnInterface, method string, requests ...Message) (*Stream, error) {
	d := s.method(method)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: d.IsStreamingClient()}, fullName(d))
	if err != nil {
		return nil, err
	}
	for _, m := range requests {
		if err := stream.SendMsg(m); err != nil {
			return nil, err
		}
	}
	if len(requests) > 0 {
		if err := stream.CloseSend(); err != nil {
			return nil, err
		}
	}
	return &Stream{stream, d}, nil
}

// Receive returns the next answer.
func (s *Stream) Receive() (Message, error) {
	m := Message{dynamicpb.NewMessage(s.method.Output())}
	return m, s.RecvMsg(m)
}

// Call is the end of a call at the server.
type Call struct {
	grpc.ServerStream
	method protoreflect.MethodDescriptor
}

// Serve returns the option of a server that answers all calls by a function, which gets their first request.
func (s *Schema) Serve(answer func(c *Call, request Message) error) grpc.ServerOption {
	return grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		name, _ := grpc.MethodFromServerStream(stream)
		c := &Call{stream, s.method(name[strings.LastIndexByte(name, '/')+1:])}
		request, err := c.Receive()
		if err != nil {
			return err
		}
		return answer(c, request)
	})
}

// Method is the name of the method.
func (c *Call) Method() string { return string(c.method.Name()) }

// Receive returns the next request.
func (c *Call) Receive() (Message, error) {
	m := Message{dynamicpb.NewMessage(c.method.Input())}
	return m, c.RecvMsg(m)
}

// Send sends an answer.
func (c *Call) Send(text string) error { return c.SendMsg(parse(c.method.Output(), text)) }
