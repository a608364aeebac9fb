package commands

import (
	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
)

// ReadPresence reads the counts of clients and users.
func ReadPresence(answer rueidis.RedisResult) (broker.PresenceStats, error) {
	numbers, err := answer.AsIntSlice()
	if err == nil && len(numbers) != 2 {
		err = errReply
	}
	if err != nil {
		return broker.PresenceStats{}, err
	}
	return broker.PresenceStats{Clients: int(numbers[0]), Users: int(numbers[1])}, nil
}

// ReadFields goes through an answer to HGETALL: a map, or keys and values in turns, which scripts return.
func ReadFields(answer rueidis.RedisResult, do func(name string, value []byte) error) error {
	message, err := answer.ToMessage()
	if err != nil {
		return err
	}
	if message.IsMap() {
		fields, err := message.ToMap()
		if err != nil {
			return errReply
		}
		for name, field := range fields {
			if err := doField(name, &field, do); err != nil {
				return err
			}
		}
		return nil
	}
	fields, err := message.ToArray()
	if err != nil {
		return errReply
	}
	for i := 0; i+1 < len(fields); i += 2 {
		name, err := fields[i].ToString()
		if err != nil {
			return errReply
		}
		if err := doField(name, &fields[i+1], do); err != nil {
			return err
		}
	}
	return nil
}

func doField(name string, field *rueidis.RedisMessage, do func(name string, value []byte) error) error {
	value, err := field.AsBytes()
	if err != nil {
		return errReply
	}
	return do(name, value)
}
