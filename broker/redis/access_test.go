package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

// works runs a broker on the shard and has one publication go round.
func works(t *testing.T, shard redis.Shard) {
	t.Helper()
	n := newNote()
	b := runBroker(t, redis.Config{Shards: []redis.Shard{shard}, Logger: quiet}, n)
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	if err := publish(b, "ch"); err != nil {
		t.Fatal(err)
	}
	receive(t, n.events)
}

// TestAccess tries the ways to get in: ACL users, names, databases, a unix socket
// and TLS, with both versions of the protocol.
func TestAccess(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Standalone(t, redistest.Options{Password: "secret", Args: []string{"--unixsocket", socket}})
	do := func(args ...string) { t.Helper(); server.Do(args...) }
	do("ACL", "SETUSER", "gyro", "on", ">pass", "~gyro.*", "resetchannels", "&gyro.*", "+@all", "-@dangerous", "+info", "+client|setname")
	secure := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	front := tlsFront(t, server.Addr(), secure.RootCAs)
	for name, shard := range map[string]redis.Shard{
		"ACL user": {Addresses: []string{server.Addr()}, User: "gyro", Password: "pass", ClientName: "node"},
		"database": {Addresses: []string{server.Addr()}, Password: "secret", DB: 3},
		"unix":     {Addresses: []string{"unix://" + socket}, Password: "secret"},
		"TLS":      {Addresses: []string{front}, Password: "secret", TLS: secure},
	} {
		for _, old := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " RESP2"}[old], func(t *testing.T) {
				shard.ForceRESP2 = old
				works(t, shard)
			})
		}
	}
	engine := newEngine(t, redis.Config{Shards: []redis.Shard{{Addresses: []string{front}, Password: "secret",
		TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Mode: redis.Standalone}}})
	if err := engine.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// tlsFront speaks TLS in front of a server, with a certificate that is added to pool.
func tlsFront(t *testing.T, server string, pool *x509.CertPool) (addr string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(certificate)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer client.Close()
				redis, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				running.Go(func() { io.Copy(redis, client); redis.Close() })
				io.Copy(client, redis)
			})
		}
	})
	return listener.Addr().String()
}
