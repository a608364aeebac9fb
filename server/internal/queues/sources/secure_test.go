package sources

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
	"github.com/gyrohq/gyro/server/internal/services"
)

// TestMain looks for goroutines that are left. That of Pub/Sub's SDK begins with the program.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.Lingering(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))...)
}

// authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.pem = text("CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	now := time.Now()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(now.UnixNano()), now.Add(-time.Hour), now.Add(time.Hour)
	template.Subject.CommonName = template.SerialNumber.String() // OpenSSL wants one
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// pair returns a certificate of a server on 127.0.0.1, or of a client, and its key.
func (a *authority) pair() (cert, key string) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return text("CERTIFICATE", c.Raw), text("PRIVATE KEY", der)
}

// server returns the TLS of a server that asks clients for certificates of the authority, or of such a client.
func (a *authority) server() *tls.Config {
	a.t.Helper()
	cert, key := a.pair()
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// options are those of a consumer's type, or its object tls.
type options map[string]any

func (o options) with(more options) options {
	all := maps.Clone(o)
	maps.Copy(all, more)
	return all
}

// testQueue is a queue behind TLS.
type testQueue struct {
	typ string
	// blamed are the options that are also to blame if a queue closes the connection without a word.
	blamed string
	// right are options that work, with the object tls that the test adds.
	right []options
	// add adds a publication.
	add func()
	// wrong are options that do not work. Without an object tls they get the right one.
	wrong []mistake
}

// mistake is a configuration that does not work.
type mistake struct {
	// want is what the error says behind the consumer's type: the key that is to blame, and more.
	want string
	options
}

// connect makes a consumer and connects it. A probe has to find the same.
func connect(t *testing.T, typ string, o options, node *queuetest.Node) (*Consumers, error) {
	t.Helper()
	list, err := json.Marshal([]any{options{"name": "events", "enabled": true, "type": typ, typ: o}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(config.Options{Env: []string{"GYRO_CONSUMERS=" + string(list)}})
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, err
	}
	c, err := New(Config{
		List: cfg.Consumers, Executor: queuetest.Config(node, nil).Executor, Meter: func(string) queues.Meter { return queues.NoMeter{} },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return c, err
	}
	sources, err := Enabled(cfg.Consumers)
	if err != nil {
		t.Fatal(err)
	}
	probed := sources[0].Probe(t.Context())
	err = c.Connect(t.Context())
	_, named := errors.AsType[*services.OptionError](probed)
	if (probed == nil) != (err == nil) || probed != nil && !named || strings.Contains(fmt.Sprint(probed), "hush") {
		t.Errorf("the probe finds: %v\nto connect: %v", probed, err)
	}
	return c, err
}

// TestSecure: how consumers get to queues that ask both sides for certificates, and clients for secrets; and which
// key is to blame if they do not get there.
func TestSecure(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	cert, key := ca.pair()
	foreignCert, foreignKey := foreign.pair()
	mutual := options{"enabled": true, "server_ca_pem": ca.pem, "cert_pem": cert, "key_pem": key}
	mistakes := []mistake{
		{"tls.server_ca_pem: ", options{"server_ca_pem": foreign.pem}},
		{"tls.server_ca_pem: there is no certificate", options{"server_ca_pem": key}},
		{"tls.server_name: ", options{"server_name": "queue.example"}},
		{"tls.cert_pem: ", options{"cert_pem": "", "key_pem": ""}},
		{"tls.cert_pem: ", options{"cert_pem": foreignCert, "key_pem": foreignKey}},
		{"tls.cert_pem, key_pem: one is set", options{"key_pem": ""}},
		{"tls.cert_pem, key_pem: tls: ", options{"key_pem": foreignKey}},
		{"tls.key_pem: ", options{"key_pem": "/nowhere/key.pem"}},
	}
	for name, open := range map[string]func(*testing.T, *authority) testQueue{
		"PostgreSQL": postgresQueue, "Kafka": kafkaQueue, "Redis": redisQueue, "Sentinel": sentinelQueue, "Cluster": clusterQueue,
		"NATS": natsQueue, "credentials": credentialsQueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, ca)
			node := queuetest.NewNode()
			works := func(name string, o options) {
				t.Helper()
				c, err := connect(t, p.typ, o, node)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				c.Run(make(chan error, 1))
				before := len(node.Got())
				p.add()
				node.Await(t, before+1)
				if err := c.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			}
			for i, o := range p.right {
				works(fmt.Sprint("right ", i), options{"tls": mutual}.with(o))
			}
			works("any server", p.right[0].with(options{"tls": mutual.with(options{"server_ca_pem": "", "insecure_skip_verify": true})}))
			for _, m := range mistakes {
				p.wrong = append(p.wrong, mistake{m.want, p.right[0].with(options{"tls": mutual.with(m.options)})})
			}
			for _, m := range p.wrong {
				blames := func(err error) bool {
					got, ok := strings.CutPrefix(fmt.Sprint(err), "consumers[0](events)."+p.typ+".")
					return ok && (strings.HasPrefix(got, m.want) || strings.HasPrefix(got, p.blamed+", "+m.want)) && !strings.Contains(got, "hush")
				}
				_, err := connect(t, p.typ, options{"tls": mutual}.with(m.options), node)
				for range 20 { // a busy machine may not open a connection in time
					if blames(err) || !strings.HasSuffix(fmt.Sprint(err), "i/o timeout") {
						break
					}
					_, err = connect(t, p.typ, options{"tls": mutual}.with(m.options), node)
				}
				if !blames(err) {
					t.Errorf("got  %v\nwant %s", err, m.want)
				}
			}
		})
	}
}
