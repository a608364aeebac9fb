// Package grpctest calls the server API over gRPC for tests, with requests and answers as JSON of the HTTP API.
package grpctest

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/api"
)

// Serve runs a server in memory until the test ends, and returns a connection to it.
func Serve(tb testing.TB, server interface {
	Serve(l net.Listener) error
	Stop()
	Wait(ctx context.Context, linger time.Duration) error
},
) *grpc.ClientConn {
	tb.Helper()
	l := bufconn.Listen(64 << 10)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Error(err)
		}
		server.Stop()
		if err := server.Wait(context.Background(), wait.Limit); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return conn
}

// Codec sends a []byte, and receives into a *[]byte, as they are.
type Codec struct{}

// Name implements encoding.CodecV2.
func (Codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Invoke calls a method by its full name.
func Invoke(ctx context.Context, conn *grpc.ClientConn, method string, request []byte, options ...grpc.CallOption) ([]byte, error) {
	var answer []byte
	err := conn.Invoke(ctx, method, request, &answer, append(options, grpc.ForceCodecV2(Codec{}))...)
	return answer, err
}

// Call calls a method with a request of JSON, and returns the answer as the HTTP API would write it. Errors are
// statuses.
func Call(ctx context.Context, conn *grpc.ClientConn, m api.Method, request string) (string, error) {
	r := m.NewRequest()
	if err := r.UnmarshalJSON([]byte(request)); err != nil {
		return "", err
	}
	answer, err := Invoke(ctx, conn, "/"+api.ServiceName+"/"+m.RPC(), r.(interface{ AppendProto([]byte) []byte }).AppendProto(nil))
	if err != nil {
		return "", err
	}
	return text(m, answer)
}

type message interface {
	UnmarshalProto(data []byte) error
	AppendJSON(dst []byte) ([]byte, error)
}

func text(m api.Method, answer []byte) (string, error) {
	method, _ := reflect.TypeFor[api.Service]().MethodByName(m.RPC())
	result := reflect.New(method.Type.Out(0).Elem()).Interface().(message)
	if m == api.MethodBatch {
		return write(result, answer)
	}
	number, _, n := protowire.ConsumeTag(answer)
	if n < 0 {
		return "", fmt.Errorf("an answer without a field: %x", answer)
	}
	body, size := protowire.ConsumeBytes(answer[n:])
	switch {
	case size < 0 || n+size != len(answer):
		return "", fmt.Errorf("an answer with more than one field: %x", answer)
	case number == 1:
		inner, err := write(new(api.Error), body)
		return `{"error":` + inner + `}`, err
	case number == 2:
		inner, err := write(result, body)
		return `{"result":` + inner + `}`, err
	}
	return "", fmt.Errorf("field %d of an answer", number)
}

func write(m message, data []byte) (string, error) {
	if err := m.UnmarshalProto(data); err != nil {
		return "", err
	}
	text, err := m.AppendJSON(nil)
	return string(text), err
}
