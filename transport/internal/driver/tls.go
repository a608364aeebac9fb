package driver

import "github.com/gyrohq/gyro/transport/internal/netio"

// tls returns the layer between the socket and the endpoint; nil: plaintext.
func (c *LoopConn[E, P]) tls() *netio.TLS {
	if c.extra == nil {
		return nil
	}
	return c.extra.tls
}

// secure puts t, unless it is nil, between the socket and the endpoint.
func (c *LoopConn[E, P]) secure(t *netio.TLS) {
	if t != nil {
		c.getExtra().tls = t
		t.Attach(uintptr(c.fd), &c.out)
	}
}

// decrypt reads once, and takes the plaintext that is complete then.
func (c *LoopConn[E, P]) decrypt(t *netio.TLS, buf []byte) (total int, err error) {
	congested := c.out != nil
	t.Begin()
	for n := 1; n > 0 && err == nil; {
		if n, err = t.Read(buf); n > 0 {
			c.take(buf[:n])
			total += n
		}
	}
	t.End()
	if !congested && c.out != nil && c.phase < gone { // TLS itself had something to say
		c.congested()
	}
	return total, err
}

// encrypt is tryWrite.
func (c *LoopConn[E, P]) encrypt(t *netio.TLS, frames [][]byte) (int, error) {
	n, err := t.TryWrite(frames)
	if err == nil && c.out != nil {
		c.congested()
	}
	return n, err
}

// encryptInto is enqueue.
func (c *LoopConn[E, P]) encryptInto(t *netio.TLS, p []byte) {
	if err := t.Queue(p); err != nil {
		c.lose(c, WriteError(err), true)
	}
}

// closeTLS tells the client that no more bytes follow, once, if there is TLS.
func (c *LoopConn[E, P]) closeTLS() {
	t := c.tls()
	if t == nil {
		return
	}
	if t.CloseWrite(); c.out != nil && c.phase == lingering {
		c.congested()
	}
}
