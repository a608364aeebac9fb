package certs

import (
	"errors"
	"strings"

	"github.com/gyrohq/gyro/refusal"
)

// causes are the failures of a handshake that a key would change, by a part of the text: crypto/tls and net/http give
// nothing else. A key with a dot before it belongs to the listener's TLS object.
var causes = []struct{ part, key, reason string }{
	{"client didn't provide a certificate", ".client_ca_pem", "the client shows no certificate"},
	{"certificate signed by unknown authority", ".client_ca_pem", "the client's certificate is of another authority"},
	{"certificate has expired or is not yet valid", ".client_ca_pem", "the client's certificate has expired or is not valid yet"},
	{"incompatible key usage", ".client_ca_pem", "the client's certificate is not one for clients"},
	{"failed to verify certificate", ".client_ca_pem", "the client's certificate cannot be verified"},
	{"client offered only unsupported versions", ".min_version", "the client offers no version of TLS that is allowed"},
	{errForeignHost.Error(), autocertKey + ".host_whitelist", errForeignHost.Error()},
	{errNoHost.Error(), autocertKey + ".server_name", errNoHost.Error()},
	{errNotObtained.Error(), autocertKey, errNotObtained.Error()},
}

var errHandshake = errors.New("TLS handshake refused")

// Refusal returns the reason if the configuration forbids a handshake, else nil. section is the key of the listener's
// TLS object, failure the text of the error.
func Refusal(section, failure string) error {
	for _, c := range causes {
		if !strings.Contains(failure, c.part) {
			continue
		}
		key := c.key
		if strings.HasPrefix(key, ".") {
			key = section + key
		}
		return refusal.Because(errHandshake, key, c.reason)
	}
	return nil
}
