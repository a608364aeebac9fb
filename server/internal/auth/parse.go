package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// parsed is a token of the right form. Nothing of it is verified. The parser of the JWT library decodes each part twice,
// through maps of any: tokens took twice as long to parse as to verify, a tenth of a node's time while clients connect.
type parsed struct {
	method    jwt.SigningMethod // nil if the algorithm is not known
	kid       string            // empty if the header has none
	claims    *claims
	signed    string // header and payload as they are signed
	signature string // in base64url
}

func parse(token string) (*parsed, error) {
	if err := checkForm(token); err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(token, ".")
	second, signature, three := strings.Cut(rest, ".")
	if !three || strings.Contains(signature, ".") {
		return nil, errMalformed
	}
	p := &parsed{signed: token[:len(first)+1+len(second)], signature: signature}
	alg, kid, critical, err := header(first)
	switch {
	case err != nil:
		return nil, errMalformed
	case critical:
		return nil, errCritical
	}
	p.method, p.kid = jwt.GetSigningMethod(alg), kid
	payload, err := base64.RawURLEncoding.DecodeString(second)
	if err != nil {
		return nil, errMalformed
	}
	members, err := object(payload)
	if err != nil {
		return nil, errMalformed
	}
	if members == nil {
		return nil, invalid("the payload is not a JSON object")
	}
	p.claims = &claims{members: members}
	return p, nil
}

// errCritical: RFC 7515, 4.1.11.
var errCritical = invalid("its header has crit, and no extension is supported")

// header returns alg and kid of a header, empty unless they are texts, and whether it has crit.
func header(part string) (alg, kid string, critical bool, err error) {
	data, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return "", "", false, err
	}
	r := jsonwire.NewReader(data)
	for ok := r.Object(); ok; ok = r.NextMember() {
		var into *string
		switch string(r.Key()) {
		case "alg":
			into = &alg
		case "kid":
			into = &kid
		case "crit":
			critical = true
		}
		switch {
		case into == nil:
			r.Skip()
		case r.IsString():
			r.String(into)
		default:
			*into = ""
			r.Skip()
		}
	}
	return alg, kid, critical, r.End()
}

// object returns the members of a JSON object by exact name; nil for null. They alias data. Of a repeated name the last
// member counts. Text must be UTF-8: claims are sent to clients unchanged, and would break their connections.
func object(data []byte) (map[string]json.RawMessage, error) {
	r := jsonwire.NewReader(data)
	if r.Null() {
		return nil, r.End()
	}
	members := make(map[string]json.RawMessage)
	for ok := r.Object(); ok; ok = r.NextMember() {
		name, start := string(r.Key()), r.Pos()
		r.Skip()
		members[name] = bytes.TrimSpace(data[start:r.Pos()])
	}
	return members, r.End()
}
