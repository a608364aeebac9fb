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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/grpctest"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
	"github.com/gyrohq/gyro/server/internal/web"
)

// uniSchema is what clients of the one-way gRPC API are made from.
var uniSchema = schematest.File("../transports/unigrpc/unistream.proto")

// uniGRPC is the client's end of a stream.
type uniGRPC struct {
	t      *testing.T
	stream *schematest.Stream
}

// dialUniGRPC connects to the server; t is nil for plaintext.
func dialUniGRPC(s *testServer, t *tls.Config, options ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	return dialGRPC(s, web.UniGRPC, t, options...)
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
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(), "x-user", headerUser), wait.Limit)
	s.t.Cleanup(cancel)
	return ctx
}

// consumeStream opens a stream, and sends the request if there is one.
func consumeStream(s *testServer, conn *grpc.ClientConn, request ...schematest.Message) *uniGRPC {
	s.t.Helper()
	stream, err := uniSchema.Open(streamContext(s), conn, "Consume", request...)
	if err != nil {
		s.t.Fatal(err)
	}
	return &uniGRPC{s.t, stream}
}

// connectRequest is a request in the text format.
func connectRequest(text string) schematest.Message { return uniSchema.Message("ConnectRequest", text) }

func openUniGRPC(s *testServer, request string) oneWay {
	s.t.Helper()
	r := connectRequest("")
	if request != "null" {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(request), r); err != nil {
			s.t.Fatal(err)
		}
	}
	return consumeStream(s, dialUniGRPC(s, nil), r)
}

func (c *uniGRPC) next() string {
	c.t.Helper()
	push, err := c.stream.Receive()
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

// TestUniGRPCBadInput: what is no connect request, and what is too much.
func TestUniGRPCBadInput(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.UniGRPC.MaxReceiveMessageSize, cfg.Client.ConnectionLimit, cfg.Client.StaleCloseDelay = 1000, 2, 2*time.Second
	})
	conn := dialUniGRPC(s, nil)
	wantNext(t, consumeStream(s, conn, uniSchema.Encoded("ConnectRequest", "\x0a\x05t")), ended(3501, "bad request")...)
	wantNext(t, consumeStream(s, conn), ended(3502, "stale")...)
	for _, method := range []string{"/centrifugal.centrifugo.unistream.CentrifugoUniStream/Other", "/other/Consume"} {
		if _, err := grpctest.Invoke(streamContext(s), conn, method, nil); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
	wantNext(t, consumeStream(s, conn, connectRequest(fmt.Sprintf("token:%q", strings.Repeat("x", 1001)))), "end ResourceExhausted")
	for range 2 {
		connected(t, consumeStream(s, conn, connectRequest("")))
	}
	wantNext(t, consumeStream(s, conn, connectRequest("")), "end Unavailable")
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
	c := consumeStream(s, dialUniGRPC(s, nil), uniSchema.Encoded("ConnectRequest", string(request)))
	connected(t, c)
	for range 2 { // bytes that are no JSON
		s.api("publish", `{"channel":"delta:a","b64data":"AP8="}`)
		push, err := c.stream.Receive()
		for err == nil && !push.Has("pub") { // the join of the client
			push, err = c.stream.Receive()
		}
		if err != nil || push.Text("pub.data") != "\x00\xff" || push.Text("channel") != "delta:a" {
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
	slow := consumeStream(s, conn, connectRequest(`subs:{key:"slow" value:{}}`))
	other := consumeStream(s, conn, connectRequest(`subs:{key:"other" value:{}}`))
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
		stream, err := uniSchema.Open(streamContext(s), dialUniGRPC(s, c), "Consume", connectRequest(""))
		if err == nil {
			_, err = stream.Receive()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.awaitLog(`"key":"uni_grpc.tls.client_ca_pem"`)
	pair := must(tls.X509KeyPair(must(client.CertPEM.Load()), must(client.KeyPEM.Load())))
	c := consumeStream(s, dialUniGRPC(s, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}), connectRequest(""))
	connected(t, c)
}
