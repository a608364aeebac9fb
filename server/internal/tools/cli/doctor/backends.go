package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/services"
)

func (d *doctor) backends(ctx context.Context) {
	c := d.Config
	seen := map[string]bool{}
	visit := func(key string, p *config.Proxy) {
		if p.Endpoint != "" && !seen[p.Endpoint] {
			seen[p.Endpoint] = true
			d.backend(ctx, key, p)
		}
	}
	for _, use := range c.ProxyUses() {
		if use.Enabled || use.NameKey != "" {
			visit(use.DefaultKey, use.Default)
		}
	}
	for i := range c.Proxies {
		visit(config.Element("proxies", i, c.Proxies[i].Name), &c.Proxies[i].Proxy)
	}
}

func (d *doctor) backend(ctx context.Context, key string, p *config.Proxy) {
	const area = "backends"
	endpoint := key + ".endpoint"
	host, isHTTP, secure, err := hostOf(p.Endpoint)
	if err != nil {
		d.report(area, Fail, "correct "+endpoint, "%s is not an address: %v", endpoint, err)
		return
	}
	section, material := key+".grpc.tls", p.GRPC.TLS
	if isHTTP {
		section, material = key+".http.tls", p.HTTP.TLS
	}
	of, err := material.ClientConfig()
	switch {
	case err != nil:
		return // the check of the configuration has told
	case isHTTP && !secure:
		of = nil
	case isHTTP && of == nil:
		of = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	begun := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		d.report(area, Fail, "start what listens there, or correct "+endpoint, "%s: %s does not answer: %v", endpoint, host, err)
		return
	}
	defer conn.Close()
	if of == nil {
		d.report(area, OK, "", "%s: %s accepts connections, after %s", endpoint, host, since(begun))
		return
	}
	if of.ServerName == "" {
		of.ServerName, _, _ = net.SplitHostPort(host) // it has been joined
	}
	client := tls.Client(conn, of)
	if err := client.HandshakeContext(ctx); err != nil {
		d.report(area, Fail, correct(err, endpoint, section), "%s: %s does not get through TLS: %v", endpoint, host, err)
		return
	}
	d.report(area, OK, "", "%s: %s accepts TLS connections, after %s", endpoint, host, since(begun))
	d.expiry(endpoint, client.ConnectionState().PeerCertificates[0], "its operator has to renew it")
}

// correct returns the keys of TLS for an error of TLS, else the address.
func correct(err error, address, section string) string {
	if option := services.TLSOption(section, err); option != "" && section != "" {
		return "correct " + option + ", or the certificate of the other side"
	}
	if strings.Contains(err.Error(), "certificate has expired") {
		return "renew the certificate of the other side, and look at the clock of this machine"
	}
	return "start what listens there, or correct " + address
}

func hostOf(address string) (host string, isHTTP, secure bool, err error) {
	ports := map[string]string{"http": "80", "https": "443"}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		u, err = url.Parse("grpc://" + address)
	}
	if err != nil {
		return "", false, false, errors.New("it is neither a URL nor host:port")
	}
	port := cmp.Or(u.Port(), ports[u.Scheme])
	if u.Hostname() == "" || port == "" {
		return "", false, false, errors.New("it has no host and port")
	}
	_, isHTTP = ports[u.Scheme]
	return net.JoinHostPort(u.Hostname(), port), isHTTP, u.Scheme == "https", nil
}
