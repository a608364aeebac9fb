// Auth: a web application with sessions of its own. Whoever has a session cookie
// may connect, as the user of the session; nobody else gets as far as a WebSocket.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/websocket"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	a, err := newApp()
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "localhost:8002", Handler: a.routes("http://localhost:8002"), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	// WebSocket connections are not the server's any more: the node ends them.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := a.node.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

// app is the application: its sessions and its node.
type app struct {
	sessions sessions
	node     *gyro.Node
}

func newApp() (*app, error) {
	a := &app{}
	var err error
	a.node, err = gyro.New(gyro.Config{Handlers: gyro.Handlers{
		Connecting: a.connecting,
		Refresh:    a.refresh,
	}})
	if err != nil {
		return nil, err
	}
	return a, a.node.Run()
}

// routes serves the application under its origin.
func (a *app) routes(origin string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("POST /logout", a.logout)
	mux.Handle("/ws", a.authenticated(websocket.NewHandler(a.node, websocket.Config{
		// Browsers send cookies along with whatever page's request: look at the page.
		CheckOrigin: func(q *front.Request) bool { return q.Get("Origin") == origin },
	})))
	return mux
}

type sessionKey struct{}

// authenticated is the middleware that knows users by their cookie. What it puts
// into the context of the request, the node's handlers find there.
func (a *app) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, ok := a.sessions.of(r)
		if !ok {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		ctx := context.WithValue(r.Context(), sessionKey{}, s.id)
		ctx = gyro.SetCredentials(ctx, &gyro.Credentials{UserID: s.user, ExpireAt: s.expires})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// connecting subscribes every user to a channel of his own. The credentials are
// those of the middleware; the session is kept for refresh.
func (a *app) connecting(ctx context.Context, _ gyro.ConnectEvent) (gyro.ConnectReply, error) {
	id := ctx.Value(sessionKey{}).(string)
	s, ok := a.sessions.get(id)
	if !ok {
		return gyro.ConnectReply{}, errors.New("session ended meanwhile")
	}
	return gyro.ConnectReply{
		Context:       context.WithValue(context.Background(), sessionKey{}, id),
		Subscriptions: map[string]gyro.SubscribeOptions{"user:" + s.user: {}},
	}, nil
}

// refresh is asked when a connection expires, together with its session. A session
// that was prolonged meanwhile prolongs the connection.
func (a *app) refresh(ctx context.Context, _ *gyro.Client, _ gyro.RefreshEvent) (gyro.RefreshReply, error) {
	s, ok := a.sessions.get(ctx.Value(sessionKey{}).(string))
	if !ok {
		return gyro.RefreshReply{Expired: true}, nil
	}
	return gyro.RefreshReply{ExpireAt: s.expires}, nil
}
