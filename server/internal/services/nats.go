package services

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/server/internal/config"
)

// NATS says how to connect to NATS.
type NATS struct {
	URL string
	// CredentialsFile is used if it is set, else User and Password, else Token.
	CredentialsFile       string
	User, Password, Token string
	TLS                   *tls.Config // nil: none
}

// NATSOf returns the server of a section. Errors name the key below the section.
func NATSOf(c *config.NATSServer) (NATS, error) {
	secure, err := c.TLS.ClientConfig()
	if err != nil {
		return NATS{}, fmt.Errorf("tls.%w", err)
	}
	return NATS{URL: c.URL, CredentialsFile: c.CredentialsFile, User: c.Username, Password: c.Password, Token: c.Token, TLS: secure}, nil
}

// Connect connects; the connection then reconnects for ever. An error is an *OptionError.
func (n *NATS) Connect(more ...nats.Option) (*nats.Conn, error) {
	options := append([]nats.Option{nats.Name("gyro"), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort()}, more...)
	switch {
	case n.CredentialsFile != "":
		options = append(options, nats.UserCredentials(n.CredentialsFile))
	case n.User != "" || n.Password != "":
		options = append(options, nats.UserInfo(n.User, n.Password))
	case n.Token != "":
		options = append(options, nats.Token(n.Token))
	}
	if n.TLS != nil {
		options = append(options, nats.Secure(n.TLS))
	}
	conn, err := nats.Connect(n.URL, options...)
	if err != nil {
		return nil, Blame(n.option(err), fmt.Errorf("connecting: %w", err))
	}
	return conn, nil
}

func (n *NATS) option(err error) string {
	if option := TLSOption("tls", err); option != "" {
		return option
	}
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrSecureConnRequired):
		return "tls.enabled"
	case n.CredentialsFile != "" && (errors.Is(err, os.ErrNotExist) || errors.Is(err, nats.ErrAuthorization)):
		return "credentials_file"
	case !errors.Is(err, nats.ErrAuthorization):
		return cmp.Or(CutOff("url", n.TLS != nil, err), "url")
	case n.User == "" && n.Password == "" && n.Token != "":
		return "token"
	}
	return "username, password"
}
