package commands

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
)

// ReadHistory reads entries of a STREAM, or a whole LIST, from which it selects what f asks for. renewed is
// Result.Renewed.
func ReadHistory(answer rueidis.RedisResult, f *broker.HistoryFilter, list bool) (h broker.History, renewed bool, err error) {
	result, entries, err := readPositionAndEntries(answer)
	if err != nil {
		return h, false, err
	}
	h.Top = result.Position
	if list {
		h.Publications, err = parseList(entries, h.Top, f)
	} else {
		h.Publications, err = parseStream(entries)
	}
	return h, result.Renewed, err
}

func readPositionAndEntries(answer rueidis.RedisResult) (result Result, entries []rueidis.RedisMessage, err error) {
	parts, err := answer.ToArray()
	if err != nil {
		return result, nil, err
	}
	if len(parts) != 2 {
		return result, nil, errReply
	}
	position, err := parts[0].ToString()
	if err != nil {
		return result, nil, err
	}
	if result, err = parsePosition(position); err != nil {
		return result, nil, err
	}
	entries, err = parts[1].ToArray()
	return result, entries, err
}

func parseStream(entries []rueidis.RedisMessage) ([]*channel.Publication, error) {
	store := make([]channel.Publication, len(entries))
	pubs := make([]*channel.Publication, len(entries))
	for i := range entries {
		entry, err := entries[i].ToArray()
		if err != nil || len(entry) != 2 {
			return nil, errReply
		}
		id, err := entry[0].ToString()
		if err != nil {
			return nil, errReply
		}
		id, _, _ = strings.Cut(id, "-")
		if store[i].Offset, err = strconv.ParseUint(id, 10, 64); err != nil {
			return nil, errReply
		}
		fields, err := entry[1].ToArray()
		if err != nil || len(fields) < 2 {
			return nil, errReply
		}
		data, err := fields[1].AsBytes()
		if err != nil {
			return nil, errReply
		}
		if _, err := format.ReadPublication(data, &store[i]); err != nil {
			return nil, err
		}
		pubs[i] = &store[i]
	}
	return pubs, nil
}

// parseList reads the newest first. Centrifugo leaves entries of an earlier life of the stream, which do not count.
func parseList(entries []rueidis.RedisMessage, top channel.StreamPosition, f *broker.HistoryFilter) ([]*channel.Publication, error) {
	var pubs []*channel.Publication
	for i := range entries {
		data, err := entries[i].AsBytes()
		if err != nil {
			return nil, errReply
		}
		m, err := format.ParseMessage(data)
		if err != nil {
			return nil, err
		}
		if string(m.Epoch) != top.Epoch || !selects(f, m.Offset) {
			continue
		}
		pub := &channel.Publication{Offset: m.Offset}
		if _, err := format.ReadPublication(m.Data, pub); err != nil {
			return nil, err
		}
		pubs = append(pubs, pub)
	}
	if !f.Reverse {
		slices.Reverse(pubs)
	}
	if f.Limit > 0 && f.Limit < len(pubs) {
		pubs = pubs[:f.Limit]
	}
	return pubs, nil
}

func selects(f *broker.HistoryFilter, offset uint64) bool {
	switch {
	case f.Since == nil:
		return true
	case f.Reverse:
		return offset < f.Since.Offset
	default:
		return offset > f.Since.Offset
	}
}
