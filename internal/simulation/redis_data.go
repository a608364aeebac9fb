package simulation

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// redisData is what a simulated Redis keeps. It has the commands that the engine sends, alone or in scripts.
type redisData struct {
	keys        map[string]*redisValue
	replication string // the ID, of data and all that follows from them
}

// redisValue is the value of a key: a text, or one of the other types.
type redisValue struct {
	text    string
	hash    map[string]string
	lives   map[string]int64 // when fields of the hash end, in Unix milliseconds
	scores  map[string]float64
	list    []string
	isList  bool
	stream  *redisStream
	expires int64 // Unix milliseconds; 0: never
}

type redisStream struct {
	last    uint64
	entries []redisEntry
}

type redisEntry struct {
	id     uint64
	fields []string
}

// Answers are nil, string, int64, []any and these.
type (
	redisStatus string
	redisError  string
	redisMap    []any // keys and values
)

const (
	wrongType = redisError("WRONGTYPE Operation against a key holding the wrong kind of value")
	noMemory  = redisError("OOM command not allowed when used memory > 'maxmemory'.")
	notNumber = redisError("ERR value is not an integer or out of range")
)

func (v *redisValue) kind() string {
	switch {
	case v.hash != nil:
		return "hash"
	case v.scores != nil:
		return "zset"
	case v.stream != nil:
		return "stream"
	case v.isList:
		return "list"
	}
	return "string"
}

func (v *redisValue) empty() bool {
	switch v.kind() {
	case "hash":
		return len(v.hash) == 0
	case "zset":
		return len(v.scores) == 0
	case "list":
		return len(v.list) == 0
	}
	return false
}

func newRedisData(replication string) *redisData {
	return &redisData{map[string]*redisValue{}, replication}
}

func (d *redisData) clone() *redisData {
	c := newRedisData(d.replication)
	for key, v := range d.keys {
		copied := *v
		copied.hash, copied.lives, copied.scores = maps.Clone(v.hash), maps.Clone(v.lives), maps.Clone(v.scores)
		copied.list = slices.Clone(v.list)
		if v.stream != nil {
			copied.stream = &redisStream{v.stream.last, slices.Clone(v.stream.entries)}
		}
		c.keys[key] = &copied
	}
	return c
}

// redisCall is one command under way.
type redisCall struct {
	*redisData
	now  time.Time // by the clock of the server
	args []string  // without the name
}

type redisCommand struct {
	do     func(c *redisCall) any
	writes bool
	grows  bool // is refused without memory
}

var redisCommands = map[string]redisCommand{
	"get": {do: (*redisCall).get}, "set": {(*redisCall).set, true, true}, "del": {(*redisCall).del, true, false},
	"type": {do: (*redisCall).typeOf}, "pexpire": {(*redisCall).pexpire, true, false}, "persist": {(*redisCall).persist, true, false},
	"hget": {do: (*redisCall).hget}, "hmget": {do: (*redisCall).hmget}, "hset": {(*redisCall).hset, true, true},
	"hdel": {(*redisCall).hdel, true, false}, "hincrby": {(*redisCall).hincrby, true, true}, "hlen": {do: (*redisCall).hlen},
	"hgetall": {do: (*redisCall).hgetall}, "hexists": {do: (*redisCall).hexists}, "hpexpire": {(*redisCall).hpexpire, true, false},
	"lpush": {(*redisCall).lpush, true, true}, "lpop": {(*redisCall).lpop, true, false}, "ltrim": {(*redisCall).ltrim, true, false},
	"lindex": {do: (*redisCall).lindex}, "lrange": {do: (*redisCall).lrange},
	"zadd": {(*redisCall).zadd, true, true}, "zrem": {(*redisCall).zrem, true, false}, "zscore": {do: (*redisCall).zscore},
	"zrange": {do: (*redisCall).zrange}, "zrangebyscore": {do: (*redisCall).zrangebyscore}, "zrangebylex": {do: (*redisCall).zrangebylex},
	"xadd": {(*redisCall).xadd, true, true}, "xdel": {(*redisCall).xdel, true, false}, "xlen": {do: (*redisCall).xlen},
	"xsetid": {(*redisCall).xsetid, true, true}, "xrange": {do: (*redisCall).xrange}, "xrevrange": {do: (*redisCall).xrevrange},
	"time": {do: (*redisCall).time},
}

// value returns the value of a key, or nil. A kind that is not empty must be that of the value; fresh, unless nil, takes
// the place of a missing value.
func (c *redisCall) value(key, kind string, fresh *redisValue) *redisValue {
	v, now := c.keys[key], c.now.UnixMilli()
	if v != nil && v.expires != 0 && v.expires <= now {
		delete(c.keys, key)
		v = nil
	}
	if v != nil {
		maps.DeleteFunc(v.lives, func(field string, until int64) bool {
			if until <= now {
				delete(v.hash, field)
			}
			return until <= now
		})
		v = c.kept(key, v)
	}
	if v == nil && fresh != nil {
		v = fresh
		c.keys[key] = v
	}
	if v != nil && kind != "" && v.kind() != kind {
		panic(wrongType)
	}
	return v
}

// kept removes an empty value.
func (c *redisCall) kept(key string, v *redisValue) *redisValue {
	if v.empty() {
		delete(c.keys, key)
		return nil
	}
	return v
}

func (c *redisCall) hashOf(key string) map[string]string {
	if v := c.value(key, "hash", nil); v != nil {
		return v.hash
	}
	return nil
}

func (c *redisCall) number(i int) int64 {
	n, err := strconv.ParseInt(c.args[i], 10, 64)
	if err != nil {
		panic(notNumber)
	}
	return n
}

func count(did bool) any {
	if did {
		return int64(1)
	}
	return int64(0)
}

func (c *redisCall) get() any {
	if v := c.value(c.args[0], "string", nil); v != nil {
		return v.text
	}
	return nil
}

// set has PX and a time as its only option.
func (c *redisCall) set() any {
	v := &redisValue{text: c.args[1]}
	if len(c.args) == 4 {
		v.expires = c.now.UnixMilli() + c.number(3)
	}
	c.keys[c.args[0]] = v
	return redisStatus("OK")
}

func (c *redisCall) del() any {
	n := int64(0)
	for _, key := range c.args {
		if c.value(key, "", nil) != nil {
			delete(c.keys, key)
			n++
		}
	}
	return n
}

func (c *redisCall) typeOf() any {
	if v := c.value(c.args[0], "", nil); v != nil {
		return redisStatus(v.kind())
	}
	return redisStatus("none")
}

func (c *redisCall) pexpire() any {
	v, until := c.value(c.args[0], "", nil), c.now.UnixMilli()+c.number(1)
	if v != nil {
		v.expires = until
	}
	return count(v != nil)
}

func (c *redisCall) persist() any {
	v := c.value(c.args[0], "", nil)
	had := v != nil && v.expires != 0
	if had {
		v.expires = 0
	}
	return count(had)
}

func (c *redisCall) hget() any {
	if text, ok := c.hashOf(c.args[0])[c.args[1]]; ok {
		return text
	}
	return nil
}

func (c *redisCall) hmget() any {
	h, out := c.hashOf(c.args[0]), []any{}
	for _, field := range c.args[1:] {
		if text, ok := h[field]; ok {
			out = append(out, text)
		} else {
			out = append(out, nil)
		}
	}
	return out
}

func (c *redisCall) hset() any {
	v, n := c.value(c.args[0], "hash", &redisValue{hash: map[string]string{}}), int64(0)
	for i := 1; i < len(c.args); i += 2 {
		if _, ok := v.hash[c.args[i]]; !ok {
			n++
		}
		v.hash[c.args[i]] = c.args[i+1]
		delete(v.lives, c.args[i])
	}
	return n
}

func (c *redisCall) hdel() any {
	v, n := c.value(c.args[0], "hash", nil), int64(0)
	if v == nil {
		return n
	}
	for _, field := range c.args[1:] {
		if _, ok := v.hash[field]; ok {
			n++
		}
		delete(v.hash, field)
		delete(v.lives, field)
	}
	c.kept(c.args[0], v)
	return n
}

func (c *redisCall) hincrby() any {
	h := c.value(c.args[0], "hash", &redisValue{hash: map[string]string{}}).hash
	n, err := strconv.ParseInt(cmp.Or(h[c.args[1]], "0"), 10, 64)
	if err != nil {
		panic(redisError("ERR hash value is not an integer"))
	}
	n += c.number(2)
	h[c.args[1]] = strconv.FormatInt(n, 10)
	return n
}

func (c *redisCall) hlen() any    { return int64(len(c.hashOf(c.args[0]))) }
func (c *redisCall) hexists() any { _, ok := c.hashOf(c.args[0])[c.args[1]]; return count(ok) }

func (c *redisCall) hgetall() any {
	h, out := c.hashOf(c.args[0]), redisMap{}
	for _, field := range slices.Sorted(maps.Keys(h)) {
		out = append(out, field, h[field])
	}
	return out
}

// hpexpire has the form key, TTL, FIELDS, 1, field.
func (c *redisCall) hpexpire() any {
	v := c.value(c.args[0], "hash", nil)
	if v == nil {
		return []any{int64(-2)}
	}
	if v.lives == nil {
		v.lives = map[string]int64{}
	}
	v.lives[c.args[4]] = c.now.UnixMilli() + c.number(1)
	return []any{int64(1)}
}

func (c *redisCall) lpush() any {
	v := c.value(c.args[0], "list", &redisValue{isList: true})
	v.list = append([]string{c.args[1]}, v.list...)
	return int64(len(v.list))
}

func (c *redisCall) lpop() any {
	v := c.value(c.args[0], "list", nil)
	if v == nil {
		return nil
	}
	first := v.list[0]
	v.list = v.list[1:]
	c.kept(c.args[0], v)
	return first
}

// part returns the elements of a list from one index to another, which may be negative.
func (c *redisCall) part(v *redisValue) []string {
	n := int64(len(v.list))
	from, to := c.number(1), c.number(2)
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to += n
	}
	if to = min(to, n-1); from > to {
		return nil
	}
	return slices.Clone(v.list[from : to+1])
}

func (c *redisCall) ltrim() any {
	if v := c.value(c.args[0], "list", nil); v != nil {
		v.list = c.part(v)
		c.kept(c.args[0], v)
	}
	return redisStatus("OK")
}

func (c *redisCall) lindex() any {
	v, i := c.value(c.args[0], "list", nil), c.number(1)
	if v == nil || i < 0 || i >= int64(len(v.list)) {
		return nil
	}
	return v.list[i]
}

func (c *redisCall) lrange() any {
	out := []any{}
	if v := c.value(c.args[0], "list", nil); v != nil {
		for _, text := range c.part(v) {
			out = append(out, text)
		}
	}
	return out
}

func (c *redisCall) scoresOf(key string) map[string]float64 {
	if v := c.value(key, "zset", nil); v != nil {
		return v.scores
	}
	return nil
}

func (c *redisCall) zadd() any {
	score, err := strconv.ParseFloat(c.args[1], 64)
	if err != nil {
		panic(redisError("ERR value is not a valid float"))
	}
	v := c.value(c.args[0], "zset", &redisValue{scores: map[string]float64{}})
	_, had := v.scores[c.args[2]]
	v.scores[c.args[2]] = score
	return count(!had)
}

func (c *redisCall) zrem() any {
	v := c.value(c.args[0], "zset", nil)
	if v == nil {
		return int64(0)
	}
	_, had := v.scores[c.args[1]]
	delete(v.scores, c.args[1])
	c.kept(c.args[0], v)
	return count(had)
}

func (c *redisCall) zscore() any {
	if score, ok := c.scoresOf(c.args[0])[c.args[1]]; ok {
		return decimal(score)
	}
	return nil
}

// decimal is a number as Redis writes it.
func decimal(n float64) string {
	if n == float64(int64(n)) {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', 17, 64)
}

func (c *redisCall) ranked(which func(member string, score float64) bool) []string {
	scores, list := c.scoresOf(c.args[0]), []string{}
	for member, score := range scores {
		if which(member, score) {
			list = append(list, member)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(scores[a], scores[b]), cmp.Compare(a, b)) })
	return list
}

func (c *redisCall) zrange() any {
	v := &redisValue{list: c.ranked(func(string, float64) bool { return true })}
	out := []any{}
	for _, member := range c.part(v) {
		out = append(out, member)
	}
	return out
}

// limited obeys LIMIT and WITHSCORES.
func (c *redisCall) limited(list []string) any {
	if i := slices.Index(c.args, "LIMIT"); i >= 0 {
		from, n := c.number(i+1), c.number(i+2)
		list = list[min(int(from), len(list)):]
		list = list[:min(int(n), len(list))]
	}
	scores, out := c.scoresOf(c.args[0]), []any{}
	for _, member := range list {
		out = append(out, member)
		if slices.Contains(c.args, "WITHSCORES") {
			out = append(out, decimal(scores[member]))
		}
	}
	return out
}

func (c *redisCall) zrangebyscore() any {
	above, below := bound(c.args[1]), bound(c.args[2])
	return c.limited(c.ranked(func(_ string, score float64) bool { return above(score) >= 0 && below(score) <= 0 }))
}

// bound compares scores with an end of a range: a number, which is outside behind a bracket. 0 is inside.
func bound(text string) func(float64) int {
	text, open := strings.CutPrefix(text, "(")
	limit, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(redisError("ERR min or max is not a float"))
	}
	return func(score float64) int {
		if open && score == limit {
			return -1 // only the lower end is open
		}
		return cmp.Compare(score, limit)
	}
}

// zrangebylex goes from - or (member to the end.
func (c *redisCall) zrangebylex() any {
	behind, open := strings.CutPrefix(c.args[1], "(")
	return c.limited(c.ranked(func(member string, _ float64) bool { return !open || member > behind }))
}

func (c *redisCall) time() any {
	return []any{strconv.FormatInt(c.now.Unix(), 10), strconv.Itoa(c.now.Nanosecond() / 1000)}
}
