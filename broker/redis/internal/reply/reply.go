// Package reply reads what the scripts of the engine and its commands answer.
package reply

import (
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

var errReply = errors.New("an answer that the script does not give")

// flags of a position.
const (
	flagDone    = '0'
	flagKey     = '1'
	flagVersion = '2'
	flagRenewed = '3'
)

// Result of a script that publishes, or asks for the position alone.
type Result struct {
	broker.PublishResult
	// Renewed tells that the stream had lost publications that were known of, and has
	// another epoch now.
	Renewed bool
}

// Position reads the answer of scripts that publish, or ask for the position alone.
func Position(answer rueidis.RedisResult) (Result, error) {
	text, err := answer.ToString()
	if err != nil {
		return Result{}, err
	}
	return parsePosition(text)
}

// parsePosition reads flag:offset:epoch.
func parsePosition(text string) (result Result, err error) {
	if len(text) < 4 || text[1] != ':' {
		return result, errReply
	}
	flag, rest := text[0], text[2:]
	for i := range len(rest) {
		if rest[i] != ':' {
			continue
		}
		if result.Position.Offset, err = strconv.ParseUint(rest[:i], 10, 64); err != nil {
			return result, errReply
		}
		result.Position.Epoch = rest[i+1:]
		switch flag {
		case flagDone:
		case flagKey:
			result.Suppressed = broker.SuppressIdempotency
		case flagVersion:
			result.Suppressed = broker.SuppressVersion
		case flagRenewed:
			result.Renewed = true
		default:
			return Result{}, errReply
		}
		return result, nil
	}
	return result, errReply
}

// Entry reads the answer of the script for one entry: where the stream is, and the
// payload of the entry, empty if it is not there.
func Entry(answer *rueidis.RedisResult) (top channel.StreamPosition, payload string, err error) {
	parts, err := answer.AsStrSlice()
	if err != nil {
		return top, "", err
	}
	if len(parts) != 3 {
		return top, "", errReply
	}
	if top.Offset, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return top, "", errReply
	}
	top.Epoch = parts[0]
	return top, parts[2], nil
}

// Renewed reads the answer of the script that renews epochs: where the stream is now.
func Renewed(answer *rueidis.RedisResult) (top channel.StreamPosition, err error) {
	parts, err := answer.AsStrSlice()
	if err != nil {
		return top, err
	}
	if len(parts) != 2 {
		return top, errReply
	}
	top.Epoch = parts[0]
	if top.Offset, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return top, errReply
	}
	return top, nil
}

// Mark reads the answer of the script that writes a mark.
func Mark(answer *rueidis.RedisResult) (before uint64, replication string, err error) {
	parts, err := answer.AsStrSlice()
	if err != nil {
		return 0, "", err
	}
	if len(parts) != 2 {
		return 0, "", errReply
	}
	if before, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return 0, "", errReply
	}
	return before, parts[1], nil
}
