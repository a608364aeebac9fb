// Package bookmark writes and reads bookmarks: texts that name the positions of some channels. A client that comes
// back with its last bookmark gets the publications that it missed.
//
// A bookmark has an entry per channel, channel=offset.epoch, with & between them. It is printable ASCII without
// spaces, so it fits into a field of HTTP and into a line of an event stream: other bytes of names and epochs, and %,
// & and =, are written as % and two hexadecimal digits.
package bookmark

import (
	"strconv"

	"github.com/gyrohq/gyro/channel"
)

// Prefix begins the line with the bookmark, which follows a message.
const Prefix = "id: "

// envelope is the most bytes of an entry beside channel and epoch.
const envelope = 3 + 20

// Size is the most bytes of the entry of a channel, for epochs of up to 64 plain characters.
func Size(ch string) int { return escapedSize(ch) + 64 + envelope }

// Add appends an entry to a line, which begins with Prefix.
func Add(line []byte, ch string, offset uint64, epoch string) []byte {
	if line[len(line)-1] != Prefix[len(Prefix)-1] {
		line = append(line, '&')
	}
	line = append(escape(line, ch), '=')
	line = append(strconv.AppendUint(line, offset, 10), '.')
	return escape(line, epoch)
}

// Parse reads a bookmark. Nil: the text is none, or empty.
func Parse(text string) map[string]channel.StreamPosition {
	positions := make(map[string]channel.StreamPosition)
	for more := true; more; {
		var entry string
		entry, text, more = cut(text, '&')
		name, position, ok := cut(entry, '=')
		digits, rest, dot := cut(position, '.')
		offset, err := strconv.ParseUint(digits, 10, 64)
		ch, valid := unescape(name)
		epoch, known := unescape(rest)
		if !ok || !dot || err != nil || !valid || !known || ch == "" || epoch == "" {
			return nil
		}
		if _, twice := positions[ch]; twice {
			return nil
		}
		positions[ch] = channel.StreamPosition{Offset: offset, Epoch: epoch}
	}
	return positions
}
