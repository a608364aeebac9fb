package auth

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

func (c *claims) get(name string) (json.RawMessage, bool) {
	raw, ok := c.members[name]
	if !ok || string(raw) == "null" {
		return nil, false
	}
	return raw, true
}

func (c *claims) wrong(name string) {
	if c.err == nil {
		c.err = invalid("claim " + name + " has a wrong type or value")
	}
}

// decode stores a claim in the pointer out, and reports whether it is present.
func (c *claims) decode(name string, out any) bool {
	raw, ok := c.get(name)
	if ok && json.Unmarshal(raw, out) != nil {
		c.wrong(name)
	}
	return ok
}

func (c *claims) string(name string) (s string) {
	if raw, ok := c.get(name); ok {
		r := jsonwire.NewReader(raw)
		if r.String(&s); r.End() != nil {
			c.wrong(name)
		}
	}
	return s
}

// number returns a claim in seconds, with fractions or in quotes, as some issuers write.
func (c *claims) number(name string) (float64, bool) {
	raw, ok := c.get(name)
	if !ok {
		return 0, false
	}
	if raw[0] != '"' {
		var x float64
		r := jsonwire.NewReader(raw)
		if r.Double(&x); r.End() != nil {
			c.wrong(name)
		}
		return x, true
	}
	var n json.Number
	if json.Unmarshal(raw, &n) != nil {
		c.wrong(name)
		return 0, true
	}
	x, err := n.Float64()
	if err != nil {
		c.wrong(name)
	}
	return x, true
}

func (c *claims) audience() []string {
	raw, ok := c.get("aud")
	if !ok {
		return nil
	}
	if raw[0] == '"' {
		return []string{c.string("aud")}
	}
	var list []*string
	c.decode("aud", &list)
	out := make([]string, 0, len(list))
	for _, s := range list {
		if s == nil {
			c.wrong("aud")
			return nil
		}
		out = append(out, *s)
	}
	return out
}

func (c *claims) userID(claim string) string {
	if claim == "" {
		return c.string("sub")
	}
	raw, ok := c.get(claim)
	if !ok {
		return ""
	}
	switch raw[0] {
	case '"':
		return c.string(claim)
	case '{', '[':
		c.wrong(claim)
		return ""
	}
	return string(raw)
}

// otherUser returns a claim of the token that issuers often use for the user, other than the claim that userID reads.
func (c *claims) otherUser(claim string) string {
	for _, name := range [...]string{"sub", "user_id", "userId", "user"} {
		if _, ok := c.get(name); ok && name != cmp.Or(claim, "sub") {
			return name
		}
	}
	return ""
}

// expireAt returns the claim expire_at, else exp, else the zero time.
func (c *claims) expireAt() time.Time {
	if raw, ok := c.get("expire_at"); ok {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			c.wrong("expire_at")
		}
		return channel.FromUnix(n)
	}
	exp, _ := c.number("exp")
	return channel.FromUnix(int64(min(exp, 1<<62)))
}

// maxID is the longest jti that is kept, in bytes.
const maxID = 256

func (c *claims) id() *channel.Token {
	id := c.string("jti")
	issued, _ := c.number("iat")
	if len(id) > maxID {
		id = ""
	}
	if id == "" && issued <= 0 {
		return nil
	}
	return &channel.Token{ID: id, IssuedAt: int64(min(max(issued, 0), 1<<53))}
}

// bytes returns the base64 claim unless it is empty, else the JSON claim.
func (c *claims) bytes(b64, plain string) []byte {
	if s := c.string(b64); s != "" {
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			c.wrong(b64)
		}
		return data
	}
	return c.json(plain)
}

// json returns a claim without line breaks, which would end a message of the JSON protocol.
func (c *claims) json(name string) []byte {
	raw, ok := c.get(name)
	if !ok {
		return nil
	}
	if !bytes.ContainsAny(raw, "\r\n") {
		return bytes.Clone(raw) // or a connection with an info would keep the whole token
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		c.wrong(name)
	}
	return out.Bytes()
}

func (c *claims) object(name string) *claims {
	sub := new(claims)
	raw, ok := c.get(name)
	if !ok {
		return sub
	}
	var err error
	if sub.members, err = object(raw); err != nil {
		c.wrong(name)
	}
	return sub
}

// capabilities returns the claim caps, or nil.
func (c *claims) capabilities() *channel.Capabilities {
	if _, ok := c.get("caps"); !ok {
		return nil // without memory for a list
	}
	var list []Capability
	if c.decode("caps", &list); c.err != nil {
		return nil
	}
	out, err := CapabilitiesOf(slices.Values(list))
	if err != nil {
		c.err = invalid("claim caps: " + err.Error())
	}
	return out
}

func (c *claims) allow() channel.Rights {
	if _, ok := c.get("allow"); !ok {
		return 0
	}
	var names []string
	c.decode("allow", &names)
	r, err := channel.ParseRights(names)
	if err != nil && c.err == nil {
		c.err = invalid("claim allow: " + err.Error())
	}
	return r
}

func (c *claims) override() Override {
	o := c.object("override")
	out := Override{
		Presence:           o.switched("presence"),
		JoinLeave:          o.switched("join_leave"),
		ForcePushJoinLeave: o.switched("force_push_join_leave"),
		ForceRecovery:      o.switched("force_recovery"),
		ForcePositioning:   o.switched("force_positioning"),
	}
	if o.err != nil {
		c.wrong("override")
	}
	return out
}

func (c *claims) switched(name string) *bool {
	if _, ok := c.get(name); !ok {
		return nil
	}
	o := c.object(name)
	on := new(bool)
	o.decode("value", on)
	if o.err != nil {
		c.wrong(name)
	}
	return on
}

// subs returns the channels in the claim subs or, if it is empty, in the claim channels.
func (c *claims) subs() map[string]SubscribeOptions {
	subs := c.object("subs")
	var channels []string
	c.decode("channels", &channels)
	out := map[string]SubscribeOptions{}
	for ch := range subs.members {
		o := subs.object(ch)
		options := SubscribeOptions{Info: o.bytes("b64info", "info"), Data: o.bytes("b64data", "data"), Override: o.override()}
		if o.err != nil || subs.err != nil {
			c.wrong("subs")
			return nil
		}
		out[ch] = options
	}
	if len(subs.members) == 0 {
		for _, ch := range channels {
			out[ch] = SubscribeOptions{}
		}
	}
	delete(out, "")
	if len(out) == 0 {
		return nil
	}
	return out
}
