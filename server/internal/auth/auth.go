// Package auth verifies the JSON Web Tokens of connections and subscriptions (docs/tokens.md), and signs them for
// development.
package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/config"
)

// MaxTokenLength is the largest length of a token, in bytes. Its JSON may be nested jsonwire.MaxDepth deep.
const MaxTokenLength = 64 << 10

// Errors of a Verifier are a *refusal.Reason with one of these. The text names the claim, the key is the key that it is
// compared with; neither has the token or the value of a claim.
var (
	// ErrExpired: the token is genuine, but expired or not valid yet.
	ErrExpired = errors.New("token expired")
	ErrInvalid = errors.New("invalid token")
)

// Override changes options of the namespace for one subscription. Nil keeps an option.
type Override struct {
	Presence           *bool
	JoinLeave          *bool
	ForcePushJoinLeave *bool
	ForceRecovery      *bool
	ForcePositioning   *bool
}

// OverrideOf returns the options that a message of an API sets: its fields have the names of the options, and pointers
// to a struct with a Value. The message may be nil.
func OverrideOf(message any) Override {
	from := reflect.Indirect(reflect.ValueOf(message))
	if !from.IsValid() {
		return Override{}
	}
	out := new(Override)
	to := reflect.ValueOf(out).Elem()
	for i := range to.NumField() {
		if set := from.FieldByName(to.Type().Field(i).Name); !set.IsNil() {
			to.Field(i).Set(set.Elem().FieldByName("Value").Addr())
		}
	}
	return *out
}

// SubscribeOptions are for a server-side subscription of a connection token.
type SubscribeOptions struct {
	Info     []byte // channel info; nil if none
	Data     []byte // for the subscription result; nil if none
	Override Override
}

// ConnectToken has the verified claims of a connection token.
type ConnectToken struct {
	// User is empty for an anonymous user.
	User string
	// OtherUser is the name of a claim that seems to hold the user if there is no User, such as user_id.
	OtherUser string
	// ExpireAt is the zero time if the connection does not expire, at most the end of the year 9999. It may be past if
	// the token has the claim expire_at.
	ExpireAt time.Time
	// Info is one line of JSON, or any bytes; nil if none.
	Info []byte
	// Meta is one line of JSON; nil if none.
	Meta   []byte
	Labels map[string]string
	// Subs are server-side subscriptions; nil if none.
	Subs map[string]SubscribeOptions
	// ID is nil if there is neither a claim jti nor iat.
	ID *channel.Token
	// Capabilities are nil without the claim caps.
	Capabilities *channel.Capabilities
}

// SubscribeToken has the verified claims of a subscription token. See Fits.
type SubscribeToken struct {
	User    string
	Channel string // never empty
	// Client must be the client ID of the connection unless it is empty. The claim is deprecated.
	Client   string
	ExpireAt time.Time
	Info     []byte // channel info; nil if none
	Data     []byte // for the subscribe reply; nil if none
	Override Override
	ID       *channel.Token
	Rights   channel.Rights // claim allow
}

// Fits returns an error unless the token is for the channel, the user and the client.
func (t *SubscribeToken) Fits(ch, user, client string) error {
	var text string
	switch {
	case t.Channel != ch:
		text = "claim channel of the subscription token is another channel"
	case t.User != user:
		text = "claim sub of the subscription token is another user than the connection's"
	case t.Client != "" && t.Client != client:
		text = "claim client of the subscription token is another client"
	default:
		return nil
	}
	return refusal.Because(protocol.DisconnectInvalidToken, "", text)
}

// Options of a verifier that are not in its section.
type Options struct {
	// Section begins the keys in errors. Default: client.token.
	Section string
	// SkipSignature accepts any signature and algorithm.
	SkipSignature bool
	// JWKS caches fetched keys. Default: a cache of the verifier.
	JWKS *jwks.Cache
	Now  func() time.Time
	// Previous, if set, is called for each token that the previous HMAC secret verifies, on any goroutine.
	Previous func()
}

// Verifier verifies tokens by client.token or client.subscription_token. It is immutable.
type Verifier struct {
	keys                        keys
	providers                   []provider // if there are any, keys is empty
	section                     string
	audience, issuer, userClaim string
	audienceRegex, issuerRegex  *regexp.Regexp
	ofMeta, ofLabels            mapping
	skipSignature               bool
	now                         func() time.Time
	previous                    func()
}

// NewVerifier returns a verifier. Errors name the key below the section. Without any key, every token is invalid.
func NewVerifier(cfg config.Token, opts Options) (*Verifier, error) {
	v := &Verifier{
		audience: cfg.Audience, issuer: cfg.Issuer, userClaim: cfg.UserIDClaim,
		section: cmp.Or(opts.Section, "client.token"), skipSignature: opts.SkipSignature, now: opts.Now, previous: opts.Previous,
	}
	if v.now == nil {
		v.now = time.Now
	}
	if v.previous == nil {
		v.previous = func() {}
	}
	var err error
	if v.audienceRegex, err = compile("audience", cfg.Audience, cfg.AudienceRegex); err != nil {
		return nil, err
	}
	if v.issuerRegex, err = compile("issuer", cfg.Issuer, cfg.IssuerRegex); err != nil {
		return nil, err
	}
	if v.ofMeta, err = newMapping("meta_from_claim", cfg.MetaFromClaim); err != nil {
		return nil, err
	}
	if v.ofLabels, err = newMapping("labels_from_claim", cfg.LabelsFromClaim); err != nil {
		return nil, err
	}
	if err = v.addProviders(&cfg, opts.JWKS); err != nil {
		return nil, err
	}
	if len(v.providers) > 0 {
		return v, nil
	}
	v.keys, err = newKeys(cfg, v.now)
	return v, err
}

func compile(key, exact, pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	if exact != "" {
		return nil, fmt.Errorf("%s_regex: excludes %s", key, key)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s_regex: %w", key, err)
	}
	return re, nil
}

// VerifyConnect verifies a connection token. The error wraps ErrExpired or ErrInvalid. If the key is not known, it waits
// for a JWKS, a few seconds or until ctx ends.
func (v *Verifier) VerifyConnect(ctx context.Context, token string) (ConnectToken, error) {
	c, err := v.verify(ctx, token)
	if err != nil {
		return ConnectToken{}, v.named(err, c, false)
	}
	out, err := v.connectToken(c)
	if err != nil {
		return ConnectToken{}, v.named(err, c, true)
	}
	return out, nil
}

// named adds the user to a refusal; the claims may be nil.
func (v *Verifier) named(err error, c *claims, verified bool) error {
	if c == nil {
		return err
	}
	return refusal.Named(err, c.userID(v.userClaim), verified && !v.skipSignature)
}

func (v *Verifier) connectToken(c *claims) (ConnectToken, error) {
	out := ConnectToken{User: c.userID(v.userClaim), Subs: c.subs(), Info: c.bytes("b64info", "info")}
	ofMeta, ofLabels := []mapping{v.ofMeta}, []mapping{v.ofLabels}
	if len(v.providers) > 0 {
		if p := v.provider(c.string("iss"), c.audience()); p != nil {
			ofMeta, ofLabels = append(ofMeta, p.ofMeta), append(ofLabels, p.ofLabels)
		}
	}
	out.Meta, out.Labels = c.meta(c.values(ofMeta...)), c.labels(c.values(ofLabels...))
	if out.User == "" {
		out.OtherUser = c.otherUser(v.userClaim)
	}
	name := c.string("channel")
	out.ExpireAt, out.ID, out.Capabilities = c.expireAt(), c.id(), c.capabilities()
	if c.err != nil {
		return ConnectToken{}, c.err
	}
	if name != "" {
		return ConnectToken{}, invalid("it is a subscription token: claim channel is present")
	}
	if err := v.checkTime(c); err != nil {
		return ConnectToken{}, err
	}
	return out, nil
}

// VerifySubscribe verifies a subscription token, like VerifyConnect.
func (v *Verifier) VerifySubscribe(ctx context.Context, token string) (SubscribeToken, error) {
	c, err := v.verify(ctx, token)
	if err != nil {
		return SubscribeToken{}, v.named(err, c, false)
	}
	out, err := v.subscribeToken(c)
	if err != nil {
		return SubscribeToken{}, v.named(err, c, true)
	}
	return out, nil
}

func (v *Verifier) subscribeToken(c *claims) (SubscribeToken, error) {
	out := SubscribeToken{
		User: c.userID(v.userClaim), Channel: c.string("channel"), Client: c.string("client"), ExpireAt: c.expireAt(),
		Info: c.bytes("b64info", "info"), Data: c.bytes("b64data", "data"), Override: c.override(), ID: c.id(), Rights: c.allow(),
	}
	if c.err != nil {
		return SubscribeToken{}, c.err
	}
	if err := v.checkTime(c); err != nil {
		return SubscribeToken{}, err
	}
	if out.Channel == "" {
		return SubscribeToken{}, invalid("claim channel is missing")
	}
	return out, nil
}

// verify makes all checks except of times. They all fail with ErrInvalid, so the signature, the most expensive check,
// comes last. With an error it also returns the claims if there are any.
func (v *Verifier) verify(ctx context.Context, token string) (*claims, error) {
	p, err := parse(token)
	if err != nil {
		return nil, err
	}
	c := p.claims
	if p.method == nil && !v.skipSignature {
		return c, errAlgorithm
	}
	issuer, audience := c.string("iss"), c.audience()
	c.string("sub")
	c.string("jti")
	c.number("iat")
	if c.err != nil {
		return c, c.err
	}
	if err := v.checkSource(issuer, audience); err != nil {
		return c, err
	}
	if !v.skipSignature {
		err = v.verifySignature(ctx, p, issuer, audience)
	}
	return c, err
}

func (v *Verifier) checkSource(issuer string, audience []string) error {
	switch {
	case v.issuer != "" && issuer != v.issuer:
		return v.invalid("issuer", "claim iss is not the configured issuer")
	case v.issuerRegex != nil && !v.issuerRegex.MatchString(issuer):
		return v.invalid("issuer_regex", "claim iss does not match")
	case v.audience != "" && !slices.Contains(audience, v.audience):
		return v.invalid("audience", "claim aud does not hold the configured audience")
	case v.audienceRegex != nil && !slices.ContainsFunc(audience, v.audienceRegex.MatchString):
		return v.invalid("audience_regex", "nothing in claim aud matches")
	}
	return nil
}

// checkTime checks exp and nbf, without leeway. A token that is not valid yet counts as expired.
func (v *Verifier) checkTime(c *claims) error {
	now := float64(v.now().UnixMicro()) / 1e6
	exp, hasExp := c.number("exp")
	nbf, hasNbf := c.number("nbf")
	switch {
	case c.err != nil:
		return c.err
	case hasExp && exp <= now:
		return refusal.Because(ErrExpired, "", "claim exp is past: the client has to get a new token")
	case hasNbf && nbf >= now:
		return refusal.Because(ErrExpired, "", "claim nbf is to come: the clocks of the issuer and of the server may differ")
	}
	return nil
}

// checkForm checks that a token begins with the base64 of `{"` and has no line breaks, which base64 decoders skip.
func checkForm(token string) error {
	if len(token) > MaxTokenLength {
		return invalid("it is longer than 65536 bytes")
	}
	if !strings.HasPrefix(token, "eyJ") {
		return invalid("it does not begin with eyJ")
	}
	for i := range len(token) {
		c := token[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
		if !ok {
			return invalid("it has other characters than base64url and dots")
		}
	}
	return nil
}

func invalid(why string) error { return refusal.Because(ErrInvalid, "", why) }

// invalid refuses a token because of a key below the section.
func (v *Verifier) invalid(key, why string) error {
	return refusal.Because(ErrInvalid, v.section+"."+key, why)
}

var (
	errMalformed = invalid("it is not three parts of base64url with JSON objects")
	errAlgorithm = invalid("its algorithm is not supported")
)

// claims has the members of a payload by exact name; encoding/json would decode Sub into a field sub. err is the first
// wrong type.
type claims struct {
	members map[string]json.RawMessage
	err     error
}
