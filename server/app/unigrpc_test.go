package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/internal/unistream"
)

// uniGRPC is the client's end of a stream. The client is the one that is generated from the
// published schema.
type uniGRPC struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[unistream.Push]
}

// dialUniGRPC connects to the server; t is nil for plaintext.
func dialUniGRPC(s *testServer, t *tls.Config, options ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	return dialGRPC(s, uniGRPCName, t, options...)
}

// dialGRPC connects to a gRPC listener of the server; t is nil for plaintext.
func dialGRPC(s *testServer, listener string, t *tls.Config, options ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	c := insecure.NewCredentials()
	if t != nil {
		c = credentials.NewTLS(t)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.app.Addr(listener), append(options, grpc.WithTransportCredentials(c))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// streamContext bounds a stream, and has the metadata of all of them.
func streamContext(s *testServer) context.Context {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(), "x-user", headerUser), 20*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

func consumeStream(s *testServer, conn *grpc.ClientConn, request *unistream.ConnectRequest) *uniGRPC {
	s.t.Helper()
	stream, err := unistream.NewCentrifugoUniStreamClient(conn).Consume(streamContext(s), request)
	if err != nil {
		s.t.Fatal(err)
	}
	return &uniGRPC{s.t, stream}
}

func openUniGRPC(s *testServer, request string) oneWay {
	s.t.Helper()
	r := new(unistream.ConnectRequest)
	if request != "null" {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(request), r); err != nil {
			s.t.Fatal(err)
		}
	}
	return consumeStream(s, dialUniGRPC(s, nil), r)
}

func (c *uniGRPC) next() string {
	c.t.Helper()
	push, err := c.stream.Recv()
	if errors.Is(err, io.EOF) { // status OK
		return "end"
	}
	if err != nil {
		return "end " + status.Code(err).String()
	}
	data, err := proto.Marshal(push)
	if err != nil {
		c.t.Fatal(err)
	}
	p := new(protocol.Push)
	if err := p.UnmarshalProto(data); err != nil {
		c.t.Fatal(err)
	}
	text, err := p.AppendJSON(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// TestUniGRPCBadInput: what is no connect request, and what is too much.
func TestUniGRPCBadInput(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.UniGRPC.MaxReceiveMessageSize, cfg.Client.ConnectionLimit, cfg.Client.StaleCloseDelay = 1000, 2, 2*time.Second
	})
	conn := dialUniGRPC(s, nil)
	const method = "/centrifugal.centrifugo.unistream.CentrifugoUniStream/Consume"
	raw := func(method, message string) oneWay {
		t.Helper()
		stream, err := conn.NewStream(streamContext(s), &grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodecV2(rawCodec{}))
		if err == nil && message != "silent" {
			_, _ = stream.SendMsg([]byte(message)), stream.CloseSend()
		}
		if err != nil {
			t.Fatal(err)
		}
		return &uniGRPC{t, &grpc.GenericClientStream[unistream.ConnectRequest, unistream.Push]{ClientStream: stream}}
	}
	wantNext(t, raw(method, "\x0a\x05t"), ended(3501, "bad request")...)
	wantNext(t, raw(method, "silent"), ended(3502, "stale")...)
	wantNext(t, raw("/centrifugal.centrifugo.unistream.CentrifugoUniStream/Other", ""), "end Unimplemented")
	wantNext(t, raw("/other/Consume", ""), "end Unimplemented")
	wantNext(t, consumeStream(s, conn, &unistream.ConnectRequest{Token: strings.Repeat("x", 1001)}), "end ResourceExhausted")
	for range 2 {
		connected(t, consumeStream(s, conn, new(unistream.ConnectRequest)))
	}
	wantNext(t, consumeStream(s, conn, new(unistream.ConnectRequest)), "end Unavailable")
}

// TestUniGRPCFields: no field counts that the published schema lacks.
func TestUniGRPCFields(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		addNamespace(cfg, "delta", func(o *config.ChannelOptions) {
			open(o)
			o.AllowedDeltaTypes, o.DeltaPublish, o.ForceRecovery = []string{"fossil"}, true, true
			o.PublicationDataFormat = "binary"
		})
	})
	request := (&protocol.ConnectRequest{
		Subs: map[string]*protocol.SubscribeRequest{"delta:a": {Delta: "fossil"}}, Flag: 1,
	}).AppendProto(nil)
	r := new(unistream.ConnectRequest)
	if err := proto.Unmarshal(request, r); err != nil {
		t.Fatal(err)
	}
	c := consumeStream(s, dialUniGRPC(s, nil), r) // which sends unknown fields on
	connected(t, c)
	for range 2 { // bytes that are no JSON
		s.api("publish", `{"channel":"delta:a","b64data":"AP8="}`)
		push, err := c.stream.Recv()
		for err == nil && push.Pub == nil { // the join of the client
			push, err = c.stream.Recv()
		}
		if err != nil || string(push.Pub.Data) != "\x00\xff" || push.Channel != "delta:a" {
			t.Fatalf("%v, %v", push, err)
		}
	}
}

// TestUniGRPCSlow: a client that does not read is ended, and the others of its connection go on.
func TestUniGRPCSlow(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.Client.QueueMaxSize = 64 << 10
	})
	conn := dialUniGRPC(s, nil, grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20))
	subs := func(ch string) *unistream.ConnectRequest {
		return &unistream.ConnectRequest{Subs: map[string]*unistream.SubscribeRequest{ch: {}}}
	}
	slow, other := consumeStream(s, conn, subs("slow")), consumeStream(s, conn, subs("other"))
	connected(t, slow)
	connected(t, other)
	publication := fmt.Sprintf(`{"publish":{"channel":"slow","data":"%s"}}`, strings.Repeat("x", 16<<10))
	s.api("batch", `{"commands":[`+strings.Repeat(publication+",", 30)+publication+`]}`)
	s.awaitLog(`"code":3008,`)
	s.api("publish", `{"channel":"other","data":1}`)
	wantNext(t, other, `{"channel":"other","pub":{"data":1}}`)
	for text := slow.next(); ; text = slow.next() {
		if strings.HasPrefix(text, "end") {
			return
		}
	}
}

// TestUniGRPCTLS: with client_ca_pem only clients with a certificate of that authority get in.
func TestUniGRPCTLS(t *testing.T) {
	t.Parallel()
	server, client := certificate(1), certificate(2)
	server.ClientCAPEM = client.CertPEM
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.UniGRPC.TLS = server
	})
	for name, c := range map[string]*tls.Config{"without TLS": nil, "without a certificate": {InsecureSkipVerify: true}} {
		stream, err := unistream.NewCentrifugoUniStreamClient(dialUniGRPC(s, c)).Consume(streamContext(s), new(unistream.ConnectRequest))
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.awaitLog(`"key":"uni_grpc.tls.client_ca_pem"`)
	pair := must(tls.X509KeyPair(must(client.CertPEM.Load()), must(client.KeyPEM.Load())))
	c := consumeStream(s, dialUniGRPC(s, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}), new(unistream.ConnectRequest))
	connected(t, c)
}
