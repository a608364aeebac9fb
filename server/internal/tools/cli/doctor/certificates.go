package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// A certificate should be renewed so long before its end.
const renewal = 14 * 24 * time.Hour

const certificates = "certificates"

func (d *doctor) certificates(context.Context) {
	c := d.Config
	d.listener("http_server.tls", &c.HTTPServer.TLS)
	d.listener("http_server.internal_tls", &c.HTTPServer.InternalTLS)
	if c.GRPCAPI.Enabled {
		d.listener("grpc_api.tls", &c.GRPCAPI.TLS)
	}
	if c.UniGRPC.Enabled {
		d.listener("uni_grpc.tls", &c.UniGRPC.TLS)
	}
}

// listener skips files that cannot be loaded: the check of the configuration has reported them.
func (d *doctor) listener(section string, t *config.ListenerTLS) {
	if !t.Enabled || t.CertPEM == "" {
		return
	}
	var leaves []*x509.Certificate
	for _, pair := range append([]config.CertificatePair{{CertPEM: t.CertPEM, KeyPEM: t.KeyPEM}}, t.Certificates...) {
		cert, err := pair.CertPEM.Load()
		if err != nil {
			continue
		}
		key, err := pair.KeyPEM.Load()
		if err != nil {
			continue
		}
		loaded, err := tls.X509KeyPair(cert, key)
		if err != nil {
			continue
		}
		var chain []*x509.Certificate
		for _, der := range loaded.Certificate {
			if c, err := x509.ParseCertificate(der); err == nil {
				chain = append(chain, c)
			}
		}
		if len(chain) == 0 {
			continue
		}
		leaves = append(leaves, chain[0])
		if d.expiry(section+".cert_pem", chain[0], "renew it, and set "+section+".cert_pem") {
			d.report(certificates, OK, "", "%s.cert_pem: the certificate of %s is valid until %s", section, namesOf(chain[0]), date(chain[0].NotAfter))
		}
		d.chain(section+".cert_pem", chain)
	}
	d.named(section+".cert_pem", leaves)
}

func (d *doctor) expiry(key string, c *x509.Certificate, advice string) bool {
	now := time.Now().Add(d.Ahead)
	switch left := c.NotAfter.Sub(now); {
	case now.Before(c.NotBefore):
		d.report(certificates, Fail, "look at the clock of this machine; else "+advice, "%s: the certificate of %s begins at %s", key, namesOf(c), date(c.NotBefore))
	case left <= 0:
		d.report(certificates, Fail, advice, "%s: the certificate of %s has expired at %s", key, namesOf(c), date(c.NotAfter))
	case left < renewal:
		d.report(certificates, Warn, advice, "%s: the certificate of %s expires at %s", key, namesOf(c), date(c.NotAfter))
	default:
		return true
	}
	return false
}

// chain tells whether clients that know the public authorities would trust the certificate.
func (d *doctor) chain(key string, chain []*x509.Certificate) {
	leaf, last := chain[0], chain[len(chain)-1]
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: d.Roots, Intermediates: between, CurrentTime: leaf.NotBefore.Add(time.Second)})
	var unknown x509.UnknownAuthorityError
	switch {
	case !errors.As(err, &unknown):
	case last.CheckSignatureFrom(last) == nil && last == leaf || last.Subject.String() == last.Issuer.String():
		d.report(certificates, Warn, "nothing, if clients are given this authority; else set "+key+" to a certificate of a public one",
			"%s: the certificate of %s is signed by %q, which only clients accept that were told to", key, namesOf(leaf), last.Issuer)
	default:
		d.report(certificates, Warn, "append the intermediate certificates of the authority to "+key+" (fullchain.pem, not cert.pem); nothing, if clients know "+last.Issuer.String(),
			"%s: the chain of %s ends at %q, which is not a root that this machine knows: clients refuse an incomplete chain", key, namesOf(leaf), last.Issuer)
	}
}

func (d *doctor) named(key string, leaves []*x509.Certificate) {
	var names []string
	for _, c := range leaves {
		if len(c.DNSNames)+len(c.IPAddresses) == 0 {
			d.report(certificates, Warn, "issue one with the names that clients connect to, and set "+key, "%s: the certificate of %s has no alternative names, so clients refuse it", key, namesOf(c))
		}
		names = append(names, namesOf(c))
		if d.Host == "" || c.VerifyHostname(d.Host) == nil {
			return
		}
	}
	if len(leaves) > 0 {
		d.report(certificates, Fail, "issue one that has this name, and set "+key, "%s: clients that connect to %s refuse the certificate, which is of %s", key, d.Host, strings.Join(names, "; "))
	}
}

func namesOf(c *x509.Certificate) string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names[:len(names):len(names)], ip.String())
	}
	if len(names) == 0 {
		return "nobody (" + c.Subject.String() + ")"
	}
	return strings.Join(names, ", ")
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
