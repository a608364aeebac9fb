package driver

import "github.com/gyrohq/gyro/transport/internal/netio"

func (c *LoopConn[E, P]) tls() *netio.TLS {
	if c.extra == nil {
		return nil
	}
	return c.extra.tls
}

func (c *LoopConn[E, P]) secure(t *netio.TLS) {
	if t != nil {
		c.getExtra().tls = t
		t.Attach(uintptr(c.fd), &c.out)
	}
}

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

func (c *LoopConn[E, P]) encrypt(t *netio.TLS, frames [][]byte) (int, error) {
	n, err := t.TryWrite(frames)
	if err == nil && c.out != nil {
		c.congested()
	}
	return n, err
}

func (c *LoopConn[E, P]) encryptInto(t *netio.TLS, p []byte) {
	if err := t.Queue(p); err != nil {
		c.lose(c, WriteError(err), true)
	}
}

// closeTLS tells the client, once, that no more bytes follow.
func (c *LoopConn[E, P]) closeTLS() {
	t := c.tls()
	if t == nil {
		return
	}
	if t.CloseWrite(); c.out != nil && c.phase == lingering {
		c.congested()
	}
}
