package commands

import (
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

var errReply = errors.New("an answer that the script does not give")

const (
	flagDone    = "0"
	flagKey     = "1"
	flagVersion = "2"
	flagRenewed = "3"
	flagExists  = "4"
	flagMissing = "5"
	flagMoved   = "6"
	flagFull    = "7"
)

// Result of a script that publishes, or reads a position.
type Result struct {
	broker.PublishResult
	// Renewed: the stream had lost publications, and has another epoch now.
	Renewed bool
}

// ReadPosition reads a Result.
func ReadPosition(answer rueidis.RedisResult) (Result, error) {
	text, err := answer.ToString()
	if err != nil {
		return Result{}, err
	}
	return parsePosition(text)
}

// parsePosition reads flag:offset:epoch.
func parsePosition(text string) (result Result, err error) {
	flag, rest, _ := strings.Cut(text, ":")
	number, epoch, found := strings.Cut(rest, ":")
	result.Position.Epoch = epoch
	if result.Position.Offset, err = strconv.ParseUint(number, 10, 64); err != nil || !found {
		return result, errReply
	}
	switch flag {
	case flagDone:
	case flagKey:
		result.Suppressed = broker.SuppressIdempotency
	case flagVersion:
		result.Suppressed = broker.SuppressVersion
	case flagRenewed:
		result.Renewed = true
	case flagExists:
		result.Suppressed = channel.SuppressKeyExists
	case flagMissing:
		result.Suppressed = channel.SuppressKeyNotFound
	case flagMoved:
		result.Suppressed = channel.SuppressPositionMismatch
	case flagFull:
		result.Suppressed = channel.SuppressMapFull
	default:
		return result, errReply
	}
	return result, nil
}

// ReadMeta reads the fields e and s of a stream's meta. The epoch is empty if there is no stream.
func ReadMeta(answer rueidis.RedisResult) (top channel.StreamPosition, err error) {
	fields, err := answer.ToArray()
	if err != nil {
		return top, err
	}
	if len(fields) != 2 {
		return top, errReply
	}
	if fields[0].IsNil() {
		return top, nil
	}
	if top.Epoch, err = fields[0].ToString(); err != nil || fields[1].IsNil() {
		return top, err
	}
	top.Offset, err = fields[1].AsUint64()
	return top, err
}

// ReadEntry reads the top, and the payload of the entry, empty if it is not there.
func ReadEntry(answer *rueidis.RedisResult) (top channel.StreamPosition, payload string, err error) {
	texts, offset, err := readTexts(answer, 3, 1)
	if err != nil {
		return top, "", err
	}
	return channel.StreamPosition{Offset: offset, Epoch: texts[0]}, texts[2], nil
}

// ReadRenewed reads the top after Renew.
func ReadRenewed(answer *rueidis.RedisResult) (top channel.StreamPosition, err error) {
	texts, offset, err := readTexts(answer, 2, 1)
	if err != nil {
		return top, err
	}
	return channel.StreamPosition{Offset: offset, Epoch: texts[0]}, nil
}

// ReadMark reads the mark before, and the replication ID of the server.
func ReadMark(answer *rueidis.RedisResult) (before uint64, replication string, err error) {
	texts, before, err := readTexts(answer, 2, 0)
	if err != nil {
		return 0, "", err
	}
	return before, texts[1], nil
}

func readTexts(answer *rueidis.RedisResult, n, at int) (texts []string, number uint64, err error) {
	if texts, err = answer.AsStrSlice(); err != nil {
		return nil, 0, err
	}
	if len(texts) != n {
		return nil, 0, errReply
	}
	if number, err = strconv.ParseUint(texts[at], 10, 64); err != nil {
		return nil, 0, errReply
	}
	return texts, number, nil
}
