// Auth: a web application with sessions. A browser with a session cookie may connect as the user
// of the session. The WebSocket handshakes of all others are refused.
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
	// The node has taken WebSocket connections over, and ends them.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := a.node.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

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

func (a *app) routes(origin string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("POST /logout", a.logout)
	mux.Handle("/ws", a.authenticated(websocket.NewHandler(a.node, websocket.Config{
		// Browsers send cookies with requests of pages of any site: check which site it is.
		CheckOrigin: func(q *front.Request) bool { return q.Get("Origin") == origin },
	})))
	return mux
}

type sessionKey struct{}

// authenticated puts the user of a session cookie into the context of the request, which handlers get.
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

// connecting subscribes each user to a channel of the user's own. The middleware has set the credentials. The session
// stays in the context for refresh.
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

// refresh is called when the session of a connection expires. If it was prolonged meanwhile, so is the connection.
func (a *app) refresh(ctx context.Context, _ *gyro.Client, _ gyro.RefreshEvent) (gyro.RefreshReply, error) {
	s, ok := a.sessions.get(ctx.Value(sessionKey{}).(string))
	if !ok {
		return gyro.RefreshReply{Expired: true}, nil
	}
	return gyro.RefreshReply{ExpireAt: s.expires}, nil
}
