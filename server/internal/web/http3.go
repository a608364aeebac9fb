package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/webtransport"
)

func (w *Web) webTransport() *webtransport.Handler {
	return webtransport.NewHandler(w.Node, webtransport.Config{
		MessageSizeLimit: w.Settings.WebTransport.MessageSizeLimit,
		CheckOrigin:      func(*front.Request) bool { return true }, // the gate has checked it
	})
}

// portTries: a port that the system chooses must be free for TCP and for UDP.
const portTries = 16

func (l *Listener) listen() (net.Listener, error) {
	for try := 1; ; try++ {
		ln, err := listening.Listen(context.Background(), "tcp", l.addr)
		if err != nil || !l.wantsHTTP3 {
			return ln, err
		}
		if err = l.listenHTTP3(ln.Addr().String()); err == nil {
			return ln, nil
		}
		err = errors.Join(err, ln.Close())
		_, port, _ := net.SplitHostPort(l.addr)
		if port != "0" || try == portTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
}

// listenHTTP3 opens the UDP socket. From now on, answers over TCP announce HTTP/3.
func (l *Listener) listenHTTP3(addr string) error {
	udp, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", udp)
	if err != nil {
		return err
	}
	if l.http3, err = webtransport.Listen(conn, l.Server); err != nil {
		return err
	}
	l.Server.Handler = l.http3.Advertise(l.Server.Handler)
	l.http3.AdvertiseRoutes(l.routes)
	return nil
}

// ServeHTTP3 blocks until shutdown. Without HTTP/3 it does nothing.
func (l *Listener) ServeHTTP3() error {
	if l.http3 == nil {
		return nil
	}
	if err := l.http3.Serve(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s listener: %w", l.Name, err)
	}
	return nil
}

func (l *Listener) shutdownHTTP3(ctx context.Context) error {
	if l.http3 == nil {
		return nil
	}
	return l.http3.Shutdown(ctx)
}

// Close closes the sockets of a listener that does not serve.
func (l *Listener) Close() error {
	if l.http3 == nil {
		return l.ln.Close()
	}
	return errors.Join(l.ln.Close(), l.http3.Close())
}
