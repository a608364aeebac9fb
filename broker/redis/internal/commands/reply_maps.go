package commands

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
)

// ReadChange reads a Result and, after a mismatch of positions, the current entry.
func ReadChange(answer rueidis.RedisResult) (result Result, current []byte, err error) {
	m, err := answer.ToMessage()
	if err != nil {
		return result, nil, err
	}
	if !m.IsArray() {
		result, err = ReadPosition(answer)
		return result, nil, err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) != 2 {
		return result, nil, errReply
	}
	text, err := parts[0].ToString()
	if err != nil {
		return result, nil, errReply
	}
	if current, err = parts[1].AsBytes(); err != nil {
		return result, nil, errReply
	}
	result, err = parsePosition(text)
	return result, current, err
}

// ReadState reads entries of a map. renewed is Result.Renewed.
func ReadState(answer rueidis.RedisResult) (s channel.State, renewed bool, err error) {
	parts, err := answer.ToArray()
	if err != nil {
		return s, false, err
	}
	if len(parts) < 3 {
		return s, false, errReply
	}
	var texts [3]string
	for i := range texts {
		if texts[i], err = parts[i].ToString(); err != nil {
			return s, false, errReply
		}
	}
	result, err := parsePosition(texts[0])
	if err != nil {
		return s, false, err
	}
	s.Top = result.Position
	if s.Count, err = strconv.Atoi(texts[1]); err != nil {
		return s, false, errReply
	}
	s.Entries, err = readEntries(parts[3:])
	if texts[2] != "" && len(s.Entries) > 0 {
		s.Cursor = s.Entries[len(s.Entries)-1].Key
	}
	return s, result.Renewed, err
}

func readEntries(values []rueidis.RedisMessage) ([]*channel.Publication, error) {
	store := make([]channel.Publication, len(values))
	pubs := make([]*channel.Publication, len(values))
	for i := range values {
		value, err := values[i].AsBytes()
		if err != nil {
			return nil, errReply
		}
		if err := format.ReadEntry(value, &store[i]); err != nil {
			return nil, err
		}
		pubs[i] = &store[i]
	}
	return pubs, nil
}

// ReadDue reads how removals are kept, in how many ms the next key expires (empty: none does), and the expired keys.
func ReadDue(answer rueidis.RedisResult) (o channel.MapOptions, next string, due []string, err error) {
	texts, err := answer.AsStrSlice()
	if err != nil {
		return o, "", nil, err
	}
	if len(texts) < 2 {
		return o, "", nil, errReply
	}
	if settings := texts[0]; settings != "" {
		var numbers [3]int64
		for i, text := range strings.SplitN(settings, ":", len(numbers)) {
			if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
				return o, "", nil, errReply
			}
		}
		o.StreamSize = int(numbers[0])
		o.StreamTTL, o.MetaTTL = time.Duration(numbers[1])*time.Millisecond, time.Duration(numbers[2])*time.Millisecond
	}
	return o, texts[1], texts[2:], nil
}
