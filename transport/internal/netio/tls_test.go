//go:build unix

package netio

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serverConfig has a certificate of this process, and no tickets, which nobody reads here.
var serverConfig = func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	}
}()

// memory is the net.Conn beneath a client: a pipe during the handshake, and then what was
// written and what is to be read.
type memory struct {
	net.Conn
	in, out bytes.Buffer
}

func (m *memory) Read(p []byte) (int, error) {
	switch {
	case m.Conn != nil:
		return m.Conn.Read(p)
	case m.in.Len() == 0:
		return 0, errAgain
	}
	return m.in.Read(p)
}

func (m *memory) Write(p []byte) (int, error) {
	if m.Conn != nil {
		return m.Conn.Write(p)
	}
	return m.out.Write(p)
}

func (m *memory) SetWriteDeadline(time.Time) error { return nil }

// secured is a TLS on a socket, and its client.
type secured struct {
	t      testing.TB
	server *TLS
	out    *Buffer
	fd     uintptr // the client's end of the socket
	wire   *memory
	client *tls.Conn
	buf    []byte
}

func newSecured(t testing.TB, config *tls.Config) *secured {
	t.Helper()
	s := &secured{t: t, wire: &memory{}, buf: make([]byte, 64<<10)}
	var server net.Conn
	server, s.wire.Conn = net.Pipe()
	config.InsecureSkipVerify = true
	s.client = tls.Client(s.wire, config)
	s.server = NewTLS(server, serverConfig)
	failed := make(chan error, 1)
	go func() { failed <- s.client.Handshake() }()
	if err := errors.Join(s.server.Conn().Handshake(), <-failed); err != nil {
		t.Fatal(err)
	}
	s.wire.Conn = nil
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		_ = syscall.SetNonblock(fd, true)
		t.Cleanup(func() { CloseFD(uintptr(fd), false) })
	}
	s.fd = uintptr(fds[1])
	s.server.Attach(uintptr(fds[0]), &s.out)
	return s
}

// deliver brings n bytes of ciphertext, at most, to the server, and returns what it decrypts.
func (s *secured) deliver(n int) (string, error) {
	s.t.Helper()
	data := s.wire.out.Next(n)
	if sent, err := TryWrite(s.fd, [][]byte{data}); sent != len(data) || err != nil {
		s.t.Fatalf("sent %d of %d: %v", sent, len(data), err)
	}
	got, err := s.server.ReadAll(s.buf)
	return string(s.buf[:got]), err
}

// collect brings n bytes of ciphertext, at most, to the client, and returns what it decrypts.
func (s *secured) collect(n int) (string, error) {
	s.t.Helper()
	s.flush()
	p := make([]byte, n)
	k, _ := TryRead(s.fd, p)
	s.wire.in.Write(p[:k])
	var got []byte
	for {
		k, err := s.client.Read(s.buf)
		got = append(got, s.buf[:k]...)
		if errors.Is(err, errAgain) {
			return string(got), nil
		}
		if err != nil {
			return string(got), err
		}
	}
}

// flush writes what waits for the socket.
func (s *secured) flush() {
	s.t.Helper()
	if s.out == nil {
		return
	}
	n, err := TryWrite(uintptr(s.server.wire.fd), [][]byte{s.out.B})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.out.B = s.out.B[n:]; len(s.out.B) == 0 {
		s.out = nil
	}
}

var versions = map[string]*tls.Config{
	"1.3":     {},
	"1.2 GCM": {MaxVersion: tls.VersionTLS12},
	"1.2 CBC": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}},
	"1.2 ChaCha20": {MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}},
}

// overVersions runs a test with each version.
func overVersions(t *testing.T, test func(t *testing.T, s *secured)) {
	for name, config := range versions {
		t.Run(name, func(t *testing.T) { test(t, newSecured(t, config.Clone())) })
	}
}

// TestTLSByteByByte: it does not matter where records are split.
func TestTLSByteByByte(t *testing.T) {
	overVersions(t, func(t *testing.T, s *secured) {
		for _, p := range []string{"one", "two", strings.Repeat("three", 100)} {
			_, _ = s.client.Write([]byte(p))
		}
		var got strings.Builder
		for s.wire.out.Len() > 0 {
			p, err := s.deliver(1)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(p)
		}
		if want := "onetwo" + strings.Repeat("three", 100); got.String() != want {
			t.Errorf("the server got %q", got.String())
		}
		if n, err := s.server.TryWrite([][]byte{[]byte("four"), nil, []byte("five")}); n != 8 || err != nil {
			t.Fatal(n, err)
		}
		got.Reset()
		for {
			p, err := s.collect(1)
			if err != nil {
				t.Fatal(err)
			}
			if got.WriteString(p); p != "" {
				break // both came at once: they share a record
			}
		}
		if got.String() != "fourfive" {
			t.Errorf("the client got %q", got.String())
		}
	})
}

// TestTLSFull: what the socket does not take waits, and arrives in order.
func TestTLSFull(t *testing.T) {
	overVersions(t, func(t *testing.T, s *secured) {
		want := make([]byte, 3<<20)
		for i := range want {
			want[i] = byte(i * 7 >> 4)
		}
		var got bytes.Buffer
		for rest := want; len(rest) > 0 || s.out != nil; {
			if s.out == nil {
				n, err := s.server.TryWrite([][]byte{rest[:min(len(rest), 5)], rest[min(len(rest), 5):]})
				if err != nil {
					t.Fatal(err)
				}
				if rest = rest[n:]; len(rest) > 0 && s.out == nil {
					t.Fatal("stopped without a reason")
				}
				if s.out != nil && len(s.out.B) > maxRecord+100 {
					t.Fatalf("%d bytes wait", len(s.out.B))
				}
			}
			p, err := s.collect(100000)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(p)
		}
		for p := "more"; p != ""; {
			var err error
			if p, err = s.collect(1 << 20); err != nil {
				t.Fatal(err)
			}
			got.WriteString(p)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes arrived, or others", got.Len())
		}
	})
}

// TestTLSEnds: how the client's direction ends.
func TestTLSEnds(t *testing.T) {
	overVersions(t, func(t *testing.T, s *secured) {
		_, _ = s.client.Write([]byte("last"))
		_ = s.client.CloseWrite()
		if got, err := s.deliver(1 << 20); got != "last" || !errors.Is(err, io.EOF) {
			t.Errorf("close_notify: %q, %v", got, err)
		}
		if got, err := s.deliver(0); got != "" || !errors.Is(err, io.EOF) {
			t.Errorf("after close_notify: %q, %v", got, err)
		}
		if n, err := s.server.TryWrite([][]byte{[]byte("after")}); n != 5 || err != nil { // half closed
			t.Errorf("writing after close_notify: %d, %v", n, err)
		}
		s.server.CloseWrite()
		s.server.CloseWrite()
		if got, err := s.collect(1 << 20); got != "after" || !errors.Is(err, io.EOF) {
			t.Errorf("the client got %q, %v", got, err)
		}
		if _, err := s.server.TryWrite([][]byte{[]byte("x")}); err == nil {
			t.Error("written after close_notify")
		}
	})
	overVersions(t, func(t *testing.T, s *secured) {
		_, _ = s.client.Write([]byte("broken"))
		s.wire.out.Bytes()[s.wire.out.Len()-1] ^= 1
		if got, err := s.deliver(1 << 20); got != "" || err == nil {
			t.Errorf("broken record: %q, %v", got, err)
		}
		if _, err := s.collect(1 << 20); err == nil || !strings.Contains(err.Error(), "bad record MAC") {
			t.Errorf("the client got %v, want an alert", err)
		}
	})
	overVersions(t, func(t *testing.T, s *secured) {
		s.wire.out.WriteString("GET / HTTP/1.1\r\n\r\n")
		if got, err := s.deliver(1 << 20); got != "" || err == nil {
			t.Errorf("garbage: %q, %v", got, err)
		}
	})
}

// TestTLSMemory: a connection on which nothing happens has no buffer, and what it uses
// meanwhile is not garbage.
func TestTLSMemory(t *testing.T) {
	if rawInputOffset == 0 || handshakeOffset == 0 {
		t.Fatal("crypto/tls has other fields: see tls_fields.go")
	}
	overVersions(t, func(t *testing.T, s *secured) {
		check := func(when string, want int) {
			t.Helper()
			raw, hand := rawInput(s.server.conn), handshakeInput(s.server.conn)
			if raw.Cap() > want || hand.Cap() > 0 || s.server.lent != nil {
				t.Errorf("%s: %d and %d bytes, lent %v", when, raw.Cap(), hand.Cap(), s.server.lent != nil)
			}
		}
		check("after the handshake", 0)
		_, _ = s.client.Write(make([]byte, 4000))
		first, _ := s.deliver(2000)
		check("with a part of a record", 2000-len(first)+128)
		if got, err := s.deliver(1 << 20); len(got) != 4000-len(first) || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		check("in the end", 0)
	})
}

// TestTLSUnknownFields: with another crypto/tls, connections are larger and nothing else.
func TestTLSUnknownFields(t *testing.T) {
	raw, hand := rawInputOffset, handshakeOffset
	rawInputOffset, handshakeOffset = 0, 0
	defer func() { rawInputOffset, handshakeOffset = raw, hand }()
	t.Run("byte by byte", TestTLSByteByByte)
	t.Run("full", TestTLSFull)
	t.Run("ends", TestTLSEnds)
	t.Run("block", TestTLSBlock)
	t.Run("key update", TestTLSKeyUpdate)
}

func TestTLSAllocations(t *testing.T) {
	s := newSecured(t, &tls.Config{})
	frames := [][]byte{[]byte(strings.Repeat("a", 100)), []byte(strings.Repeat("b", 100))}
	if n := testing.AllocsPerRun(100, func() {
		_, _ = s.server.TryWrite(frames)
		_, _ = TryRead(s.fd, s.buf)
	}); n > 1 {
		t.Errorf("%v allocations per flush", n)
	}
	const runs = 100
	var records [runs + 1][]byte
	for i := range records {
		_, _ = s.client.Write(frames[0])
		records[i] = bytes.Clone(s.wire.out.Next(1 << 20))
	}
	i := 0
	if n := testing.AllocsPerRun(runs, func() {
		_, _ = TryWrite(s.fd, records[i:i+1])
		i++
		if n, err := s.server.ReadAll(s.buf); n != 100 || err != nil {
			t.Fatal(n, err)
		}
	}); n > 1 {
		t.Errorf("%v allocations per message", n)
	}
	var before, after runtime.MemStats
	many := make([]*secured, 100)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range many {
		many[i] = newSecured(t, &tls.Config{})
		many[i].client, many[i].wire, many[i].buf = nil, nil, nil
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int64(after.HeapAlloc-before.HeapAlloc) / int64(len(many))
	t.Logf("an idle connection holds %d bytes", each)
	if each > 5000 {
		t.Errorf("an idle connection holds %d bytes", each)
	}
	runtime.KeepAlive(many)
}

// TestTLSBlock: a connection goes on where it was with blocking reads, in the middle of a
// record, too.
func TestTLSBlock(t *testing.T) {
	overVersions(t, func(t *testing.T, s *secured) {
		_, _ = s.client.Write([]byte("split"))
		if got, err := s.deliver(9); got != "" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		a, b := both(t)
		conn := s.server.Block(a)
		_, _ = b.Write(s.wire.out.Next(1 << 20))
		p := make([]byte, 100)
		if n, err := conn.Read(p); string(p[:n]) != "split" || err != nil {
			t.Errorf("%q, %v", p[:n], err)
		}
		go func() { _, _ = conn.Write([]byte("answer")) }()
		s.wire.Conn = b
		if n, err := s.client.Read(p); string(p[:n]) != "answer" || err != nil {
			t.Errorf("the client got %q, %v", p[:n], err)
		}
		NewStream(conn).Abort()
		if _, err := io.Copy(io.Discard, b); err == nil {
			t.Error("not reset")
		}
	})
}

// FuzzTLS has an oracle: a stream through crypto/tls, whatever the portions in which records
// travel, the sizes of writes, and their order.
func FuzzTLS(f *testing.F) {
	f.Add(uint8(0), []byte("\x00\x05\x01\x02\x02\x05\x03\x03\x00\xff\x01\xff\x01\x01"))
	f.Add(uint8(1), []byte("\x02\xff\x02\xff\x02\xff\x03\x01\x03\xff\x00\x80\x00\x01\x01\x80\x03\xff"))
	names := []string{"1.3", "1.2 GCM", "1.2 CBC", "1.2 ChaCha20"}
	f.Fuzz(func(t *testing.T, version uint8, script []byte) {
		s := newSecured(t, versions[names[int(version)%len(names)]].Clone())
		var up, down [2]bytes.Buffer // sent and received
		next := byte(0)
		data := func(n int) []byte {
			p := make([]byte, n)
			for i := range p {
				next = next*5 + 1
				p[i] = next
			}
			return p
		}
		for len(script) > 1 && up[0].Len()+down[0].Len() < 1<<20 {
			n := int(script[1]) * (1 + int(script[0]>>2)*4)
			switch script[0] & 3 {
			case 0:
				p := data(n)
				_, _ = s.client.Write(p)
				up[0].Write(p)
			case 1:
				p, err := s.deliver(min(n, 50000))
				if err != nil {
					t.Fatal(err)
				}
				up[1].WriteString(p)
			case 2:
				frames := [][]byte{data(n), data(int(script[1])), data(n / 3)}
				all := bytes.Join(frames, nil)
				if s.out != nil {
					break
				}
				k, err := s.server.TryWrite(frames)
				if err != nil {
					t.Fatal(err)
				}
				down[0].Write(all[:k])
			case 3:
				p, err := s.collect(n)
				if err != nil {
					t.Fatal(err)
				}
				down[1].WriteString(p)
			}
			script = script[2:]
		}
		for s.wire.out.Len() > 0 {
			p, err := s.deliver(50000)
			if err != nil {
				t.Fatal(err)
			}
			up[1].WriteString(p)
		}
		for p := "more"; p != "" || s.out != nil; {
			var err error
			if p, err = s.collect(1 << 20); err != nil {
				t.Fatal(err)
			}
			down[1].WriteString(p)
		}
		if !bytes.Equal(up[0].Bytes(), up[1].Bytes()) || !bytes.Equal(down[0].Bytes(), down[1].Bytes()) {
			t.Errorf("sent %d and %d bytes, %d and %d arrived", up[0].Len(), down[0].Len(), up[1].Len(), down[1].Len())
		}
	})
}

// records is a client that makes and reads records of TLS 1.3 itself, so that it can send what
// crypto/tls does not.
type records struct {
	*secured
	up, down keys
	got      []byte // ciphertext
}

type keys struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func (k *keys) use(secret []byte) {
	block, err := aes.NewCipher(expand(secret, "key", 16))
	if err != nil {
		panic(err)
	}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		panic(err)
	}
	k.secret, k.iv, k.seq = secret, expand(secret, "iv", 12), 0
}

// expand is HKDF-Expand-Label of RFC 8446 section 7.1.
func expand(secret []byte, label string, size int) []byte {
	label = "tls13 " + label
	info := string([]byte{byte(size >> 8), byte(size), byte(len(label))}) + label + "\x00"
	p, err := hkdf.Expand(sha256.New, secret, info, size)
	if err != nil {
		panic(err)
	}
	return p
}

func (k *keys) update() { k.use(expand(k.secret, "traffic upd", sha256.Size)) }

func (k *keys) nonce() []byte {
	n := bytes.Clone(k.iv)
	binary.BigEndian.PutUint64(n[4:], binary.BigEndian.Uint64(n[4:])^k.seq)
	k.seq++
	return n
}

func newRecords(t *testing.T) *records {
	t.Helper()
	var log bytes.Buffer
	s := newSecured(t, &tls.Config{MinVersion: tls.VersionTLS13, KeyLogWriter: &log})
	if s.client.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor prefers another cipher")
	}
	r := &records{secured: s}
	for line := range strings.Lines(log.String()) {
		words := strings.Fields(line)
		secret, _ := hex.DecodeString(words[2])
		switch words[0] {
		case "CLIENT_TRAFFIC_SECRET_0":
			r.up.use(secret)
		case "SERVER_TRAFFIC_SECRET_0":
			r.down.use(secret)
		}
	}
	return r
}

const (
	alertType, handshakeType, dataType = 21, 22, 23
	updateKeys, updateKeysToo          = "\x18\x00\x00\x01\x00", "\x18\x00\x00\x01\x01"
)

// record makes a record.
func (r *records) record(kind byte, payload string) *records {
	n := len(payload) + 1 + r.up.aead.Overhead()
	head := []byte{dataType, 3, 3, byte(n >> 8), byte(n)}
	r.wire.out.Write(r.up.aead.Seal(head, r.up.nonce(), append([]byte(payload), kind), head))
	return r
}

// answer reads the next record.
func (r *records) answer() (kind byte, payload string) {
	r.t.Helper()
	r.flush()
	p := make([]byte, 1<<20)
	n, _ := TryRead(r.fd, p)
	if r.got = append(r.got, p[:n]...); len(r.got) < 5 {
		return 0, ""
	}
	size := 5 + int(binary.BigEndian.Uint16(r.got[3:]))
	plain, err := r.down.aead.Open(nil, r.down.nonce(), r.got[5:size], r.got[:5])
	if err != nil {
		r.t.Fatal(err)
	}
	r.got = r.got[size:]
	return plain[len(plain)-1], string(plain[:len(plain)-1])
}

// TestTLSKeyUpdate: both directions change their keys, as often as the client wants.
func TestTLSKeyUpdate(t *testing.T) {
	r := newRecords(t)
	for range 3 {
		r.record(dataType, "one").record(handshakeType, updateKeysToo[:2]).record(handshakeType, updateKeysToo[2:]).up.update()
		r.record(dataType, "two").record(handshakeType, updateKeys).up.update()
		r.record(dataType, "three")
		var got strings.Builder
		for r.wire.out.Len() > 0 {
			p, err := r.deliver(7)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(p)
		}
		if got.String() != "onetwothree" {
			t.Fatalf("the server got %q", got.String())
		}
		_, _ = r.server.TryWrite([][]byte{[]byte("four")})
		if kind, p := r.answer(); kind != handshakeType || p != updateKeys {
			t.Fatalf("the client got %d %q", kind, p)
		}
		r.down.update()
		if kind, p := r.answer(); kind != dataType || p != "four" {
			t.Fatalf("the client got %d %q", kind, p)
		}
	}
}

// TestTLSViolations: each ends the connection, with an alert.
func TestTLSViolations(t *testing.T) {
	for name, tt := range map[string]struct {
		send  func(r *records)
		want  string // of the error
		alert byte
	}{
		"fatal alert":       {func(r *records) { r.record(alertType, "\x02\x28") }, "handshake failure", 0},
		"hello":             {func(r *records) { r.record(handshakeType, "\x01\x00\x00\x00") }, "decoding", 50},
		"finished":          {func(r *records) { r.record(handshakeType, "\x14\x00\x00\x00") }, "unexpected", 10},
		"unknown type":      {func(r *records) { r.record(99, "x") }, "unexpected message", 10},
		"no type":           {func(r *records) { r.record(0, "\x00\x00") }, "unexpected message", 10},
		"too many updates":  {func(r *records) { manyUpdates(r) }, "too many", 10},
		"endless message":   {func(r *records) { r.record(handshakeType, "\x0b\x03\xff\xff"+strings.Repeat("x", 1000)) }, "no KeyUpdate", 0},
		"data inside hand.": {func(r *records) { r.record(handshakeType, updateKeys[:3]).record(dataType, "x") }, "unexpected message", 10},
		"too large":         {func(r *records) { r.wire.out.WriteString("\x17\x03\x03\xff\xff") }, "oversized record", 22},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecords(t)
			tt.send(r)
			var err error
			for r.wire.out.Len() > 0 && err == nil {
				_, err = r.deliver(1000)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if kind, p := r.answer(); tt.alert > 0 && (kind != alertType || p[1] != tt.alert) {
				t.Errorf("the client got %d %q", kind, p)
			}
		})
	}
}

func manyUpdates(r *records) {
	for range 30 {
		r.record(handshakeType, updateKeys).up.update()
	}
}

// TestTLSFlood: a client cannot have answers pile up that it does not read.
func TestTLSFlood(t *testing.T) {
	r := newRecords(t)
	_ = syscall.SetsockoptInt(int(r.server.wire.fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1)
	var err error
	for range 5000 {
		r.record(dataType, "x").record(handshakeType, updateKeysToo).up.update()
		if _, err = r.deliver(1 << 20); err != nil {
			break
		}
	}
	if err == nil || r.out == nil || len(r.out.B) > maxUnasked {
		t.Fatalf("%v wait, %v", r.out != nil, err)
	}
}
