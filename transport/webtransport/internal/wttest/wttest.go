// Package wttest has helpers of the tests of this module.
package wttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// SelfSigned makes the TLS of a server whose clients check no certificate.
func SelfSigned(serial int64) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// UDP opens a socket at an address.
func UDP(t testing.TB, address string) *net.UDPConn {
	t.Helper()
	udp, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", udp)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Serve runs serve until the test ends, which calls end; serve returns want then.
func Serve(t testing.TB, serve, end func() error, want error) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- serve() }()
	t.Cleanup(func() {
		_ = end() // a test may have closed it
		if err := wait.Receive(t, "end of Serve", served); !errors.Is(err, want) {
			t.Error(err)
		}
	})
}
