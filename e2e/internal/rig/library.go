package rig

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
	"github.com/gyrohq/gyro/transport/websocket"
	"github.com/gyrohq/gyro/transport/webtransport"
)

// Library is a server made of the library, which answers RPCs and messages:
//
//	rpc "upper"  answers {"text": t} with {"text": T}
//	rpc "push"   answers with {} and pushes its data to the client as a message
//	rpc "fail"   answers with application error 1000, temporary
//	rpc "bye"    disconnects the client with 4501
//	message      is pushed back to the client
type Library struct {
	Addr string

	node  *gyro.Node
	http  *http.Server
	http3 *webtransport.Server
}

func startLibrary(c *certificate) (*Library, error) {
	node, err := gyro.New(gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "guest"}, Data: e.Data}, nil
		},
		RPC: rpc,
		Message: func(_ context.Context, c *gyro.Client, data []byte) error {
			return c.Send(data)
		},
	}})
	if err != nil {
		return nil, err
	}
	if err := node.Run(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	l := &Library{Addr: listener.Addr().String(), node: node, http: &http.Server{
		Handler: endpoints(node), TLSConfig: &tls.Config{Certificates: []tls.Certificate{c.Certificate}},
	}}
	if l.http3, err = webtransport.Listen(udp, l.http); err != nil {
		return nil, err
	}
	go l.http.Serve(listener) //nolint:errcheck // ends with Close
	go l.http3.Serve()        //nolint:errcheck // ends with Close
	return l, nil
}

func endpoints(node *gyro.Node) http.Handler {
	anywhere := func(*front.Request) bool { return true }
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", websocket.NewHandler(node, websocket.Config{}))
	mux.Handle("/connection/http_stream", httpstream.NewHandler(httpstream.HTTPStream, node, httpstream.Config{AllowOrigin: anywhere}))
	mux.Handle("/connection/sse", httpstream.NewHandler(httpstream.SSE, node, httpstream.Config{AllowOrigin: anywhere}))
	mux.Handle("/emulation", httpstream.NewEmulation(node, httpstream.EmulationConfig{AllowOrigin: anywhere}))
	mux.Handle("/connection/webtransport", webtransport.NewHandler(node, webtransport.Config{CheckOrigin: anywhere}))
	return mux
}

func rpc(_ context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
	switch e.Method {
	case "upper":
		var in struct{ Text string }
		if err := json.Unmarshal(e.Data, &in); err != nil {
			return nil, protocol.ErrorBadRequest
		}
		return json.Marshal(map[string]string{"text": strings.ToUpper(in.Text)})
	case "push":
		return []byte("{}"), c.Send(e.Data)
	case "fail":
		return nil, &protocol.Error{Code: 1000, Message: "try later", Temporary: true}
	case "bye":
		return nil, protocol.Disconnect{Code: 4501, Reason: "bye"}
	default:
		return nil, protocol.ErrorMethodNotFound
	}
}

// WS is the address of the WebSocket endpoint.
func (l *Library) WS() string { return "ws://" + l.Addr + "/connection/websocket" }

func (l *Library) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := l.node.Shutdown(ctx); err != nil {
		fmt.Println("library node:", err)
	}
	_ = l.http.Close()
	_ = l.http3.Close()
}
