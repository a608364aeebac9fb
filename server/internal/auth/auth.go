// Package auth verifies the JSON Web Tokens of connections and subscriptions
// (docs/tokens.md), and signs them for development.
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

// MaxTokenLength bounds the length of a token, bytes. Longer ones are invalid, as are tokens whose JSON is nested more
// than jsonwire.MaxDepth deep.
const MaxTokenLength = 64 << 10

// Errors of a Verifier are a *refusal.Reason with one of these two. The text names the claim,
// and the key is the one that the token is compared with. The text never has the token or the
// value of a claim.
var (
	// ErrExpired: the token is genuine, but expired or not yet valid.
	ErrExpired = errors.New("token expired")
	// ErrInvalid: the token fails any other check.
	ErrInvalid = errors.New("invalid token")
)

// Override changes channel options for one subscription. Nil keeps the option of
// the namespace.
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

// SubscribeOptions of a server-side subscription that a connection token grants.
type SubscribeOptions struct {
	Info     []byte // channel info; nil if none
	Data     []byte // for the subscription result; nil if none
	Override Override
}

// ConnectToken has the verified claims of a connection token.
type ConnectToken struct {
	// User is the user ID; empty for an anonymous user.
	User string
	// OtherUser is the name of a claim that seems to hold the user, if there is no User:
	// issuers write user_id where sub is expected.
	OtherUser string
	// ExpireAt is when the connection expires, at the end of the year 9999 at the latest;
	// the zero time if it does not expire. It may be in the past if the token has the claim
	// expire_at.
	ExpireAt time.Time
	// Info is the connection info, one line of JSON or any bytes; nil if none.
	Info []byte
	// Meta is the connection meta, one line of JSON; nil if none.
	Meta []byte
	// Labels stay the same for the life of the connection; nil if none.
	Labels map[string]string
	// Subs are the channels to subscribe to on the server side; nil if none.
	Subs map[string]SubscribeOptions
	// ID names the token; nil if it has neither claim jti nor iat.
	ID *channel.Token
}

// SubscribeToken has the verified claims of a subscription token. The caller compares User, Channel and Client with the
// connection.
type SubscribeToken struct {
	User    string
	Channel string // never empty
	// Client must be the connection's client ID unless it is empty. The claim is deprecated,
	// but still checked.
	Client string
	// ExpireAt is as in ConnectToken.
	ExpireAt time.Time
	Info     []byte // channel info; nil if none
	Data     []byte // for the subscribe reply; nil if none
	Override Override
	// ID is as in ConnectToken.
	ID *channel.Token
}

// Fits returns an error unless a token was made for the channel, the user and the client with an ID.
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

// Options of a verifier that are not in its section of the configuration.
type Options struct {
	// Section of the configuration, client.token by default: keys in errors begin with it.
	Section string
	// SkipSignature accepts any signature and algorithm
	// (client.insecure_skip_token_signature_verify).
	SkipSignature bool
	// JWKS keeps the keys that were fetched. By default the verifier has a cache of its own,
	// which ends with the process.
	JWKS *jwks.Cache
	// Now is the clock; time.Now by default.
	Now func() time.Time
	// Previous is called for each token that the previous HMAC secret verifies, from any goroutine. It may be nil.
	Previous func()
}

// Verifier verifies tokens by one section of the configuration, client.token or
// client.subscription_token. It is immutable and safe for concurrent use.
type Verifier struct {
	keys                        keys
	providers                   []provider // if there are any, keys is empty
	section                     string
	audience, issuer, userClaim string
	audienceRegex, issuerRegex  *regexp.Regexp
	// ofMeta and ofLabels have the claims that become meta and labels of a connection.
	ofMeta, ofLabels mapping
	skipSignature    bool
	now              func() time.Time
	previous         func()
}

// NewVerifier returns a verifier. An error names the key below the section, not
// its value. Without any key material every token is invalid.
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

// VerifyConnect verifies a connection token. The error wraps ErrExpired or
// ErrInvalid. It waits for a JWKS to be fetched if the token's key is not known, a few seconds at
// most, or until ctx ends.
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

// named returns the refusal of a token with its user. The claims are nil if it has none.
func (v *Verifier) named(err error, c *claims, verified bool) error {
	if c == nil {
		return err
	}
	return refusal.Named(err, c.userID(v.userClaim), verified && !v.skipSignature)
}

// connectToken reads the claims of a connection token whose signature is right.
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
	out.ExpireAt, out.ID = c.expireAt(), c.id()
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

// VerifySubscribe verifies a subscription token. The error wraps ErrExpired or
// ErrInvalid. It waits as VerifyConnect does.
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

// subscribeToken reads the claims of a subscription token whose signature is right.
func (v *Verifier) subscribeToken(c *claims) (SubscribeToken, error) {
	out := SubscribeToken{
		User: c.userID(v.userClaim), Channel: c.string("channel"), Client: c.string("client"), ExpireAt: c.expireAt(),
		Info: c.bytes("b64info", "info"), Data: c.bytes("b64data", "data"), Override: c.override(), ID: c.id(),
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

// verify makes all checks but the checks of times. All of them fail with ErrInvalid, so their order does not matter;
// the signature, the most expensive one, comes last. With an error, too, it returns the claims if there are any.
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

// checkSource compares the claims iss and aud with the configuration.
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

// checkTime checks exp and nbf, without leeway. A token that is not yet valid counts as
// expired.
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

// checkForm checks that a token begins with the base64 of `{"`, and has no line breaks, which base64
// decoders skip.
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

// invalid is the refusal of a token that no setting would accept.
func invalid(why string) error { return refusal.Because(ErrInvalid, "", why) }

// invalid is the refusal of a token because of a key below the section.
func (v *Verifier) invalid(key, why string) error {
	return refusal.Because(ErrInvalid, v.section+"."+key, why)
}

var (
	errMalformed = invalid("it is not three parts of base64url with JSON objects")
	errAlgorithm = invalid("its algorithm is not supported")
)

// claims has the members of a payload by exact name. (encoding/json would decode Sub into a field
// sub, too.) Its methods keep the first wrong type that they meet in err.
type claims struct {
	members map[string]json.RawMessage
	err     error
}
