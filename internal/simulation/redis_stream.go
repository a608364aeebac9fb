package simulation

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// entryID reads the first part of an ID; the second one is 0 in all entries.
func entryID(text string) uint64 {
	number, _, _ := strings.Cut(text, "-")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		panic(redisError("ERR Invalid stream ID specified as stream command argument"))
	}
	return id
}

func (c *redisCall) streamOf(key string) *redisStream {
	if v := c.value(key, "stream", nil); v != nil {
		return v.stream
	}
	return nil
}

// xadd has the form key, MAXLEN, n, ID, field, text.
func (c *redisCall) xadd() any {
	size, id := c.number(2), entryID(c.args[3])
	s := c.value(c.args[0], "stream", &redisValue{stream: &redisStream{}}).stream
	if id <= s.last {
		return redisError("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	}
	s.last = id
	s.entries = append(s.entries, redisEntry{id, slices.Clone(c.args[4:])})
	s.entries = s.entries[max(0, len(s.entries)-int(size)):]
	return c.args[3]
}

func (c *redisCall) xdel() any {
	s, id := c.streamOf(c.args[0]), entryID(c.args[1])
	if s == nil {
		return int64(0)
	}
	n := len(s.entries)
	s.entries = slices.DeleteFunc(slices.Clone(s.entries), func(e redisEntry) bool { return e.id == id })
	return int64(n - len(s.entries))
}

func (c *redisCall) xlen() any {
	if s := c.streamOf(c.args[0]); s != nil {
		return int64(len(s.entries))
	}
	return int64(0)
}

func (c *redisCall) xsetid() any {
	s, id := c.streamOf(c.args[0]), entryID(c.args[1])
	if s == nil {
		return redisError("ERR no such key")
	}
	if n := len(s.entries); n > 0 && s.entries[n-1].id > id {
		return redisError("ERR The ID specified in XSETID is smaller than the target stream top item")
	}
	s.last = id
	return redisStatus("OK")
}

func (c *redisCall) xrange() any    { return c.entries(c.args[1], c.args[2], false) }
func (c *redisCall) xrevrange() any { return c.entries(c.args[2], c.args[1], true) }

func (c *redisCall) entries(from, to string, reverse bool) any {
	first, last, limit := uint64(0), uint64(math.MaxUint64), math.MaxInt
	if from != "-" {
		first = entryID(from)
	}
	if to != "+" {
		last = entryID(to)
	}
	if len(c.args) == 5 {
		limit = int(c.number(4))
	}
	out := []any{}
	if s := c.streamOf(c.args[0]); s != nil {
		for i := range s.entries {
			if reverse {
				i = len(s.entries) - 1 - i
			}
			if e := s.entries[i]; first <= e.id && e.id <= last && len(out) < limit {
				fields := []any{}
				for _, f := range e.fields {
					fields = append(fields, f)
				}
				out = append(out, []any{strconv.FormatUint(e.id, 10) + "-0", fields})
			}
		}
	}
	return out
}
