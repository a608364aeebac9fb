package control

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// short returns the number for a UID in Command.Deadlines.
func short(uid string) uint32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return uint32(h.Sum64())
}

// AddDeadline adds the time until which the node with the UID may do the command, by its clock, rounded down to
// milliseconds.
func (c *Command) AddDeadline(uid string, until int64) {
	c.Deadlines = binary.LittleEndian.AppendUint32(c.Deadlines, short(uid))
	c.Deadlines = binary.AppendUvarint(c.Deadlines, uint64(max(until, 0)/int64(time.Millisecond)))
}

// Late tells whether the time of a command is over for the node with the UID, whose clock shows now. A command without a
// time for the node is not late. If UIDs look the same in Deadlines, the earliest time counts.
func (c *Command) Late(uid string, now int64) bool {
	for _, to := range c.To {
		if to.UID == uid && now > to.Until {
			return true
		}
	}
	own := short(uid)
	for rest := c.Deadlines; len(rest) > 4; {
		until, n := binary.Uvarint(rest[4:])
		if n <= 0 {
			return false // of a version that does not exist yet
		}
		if binary.LittleEndian.Uint32(rest) == own && now > int64(until)*int64(time.Millisecond) {
			return true
		}
		rest = rest[4+n:]
	}
	return false
}
