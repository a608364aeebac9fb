package validate

import (
	"cmp"
	"fmt"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// NotJSON is the error for a payload that clients with JSON connections could not read. It wraps jsonwire.ErrNotJSON.
type NotJSON struct {
	// Channel is empty if the payload belongs to none.
	Channel string
	// What is Data or the name of a field.
	What   string
	Reason error
}

// Data is NotJSON.What for the payload of a publication.
const Data = "the payload"

// Error implements error.
func (e *NotJSON) Error() string {
	of, key := "", "Config.Binary"
	if e.Channel != "" {
		of, key = fmt.Sprintf("channel %q: ", e.Channel), "ChannelOptions.Binary"
	}
	return fmt.Sprintf("gyro: %s%s is not JSON (%v), so clients with JSON connections could not read it; %s allows it", of, e.What, e.Reason, key)
}

// Unwrap returns jsonwire.ErrNotJSON.
func (e *NotJSON) Unwrap() error { return jsonwire.ErrNotJSON }

// Payload checks the payload of a publication if Publish returned json. checked is for channel.Publication.
func Payload(ch string, data []byte) (checked bool, err error) {
	if len(data) == 0 {
		return false, nil
	}
	ok, lines := jsonwire.Check(data)
	if !ok {
		return false, notJSON(ch, Data, data)
	}
	return !lines, nil
}

// Keyed checks the value of a key of a channel. checked is for channel.Publication.
func (r *Rules) Keyed(ch string, data []byte) (checked bool, err error) {
	if of, err := r.options(ch); err != nil || of.Binary {
		return false, err
	}
	return Payload(ch, data)
}

// Value checks the payload of a field that belongs to no channel.
func (r *Rules) Value(what string, data []byte) error {
	if r.Binary {
		return nil
	}
	return check("", what, data)
}

// ValueIn checks a payload of a channel that is no publication.
func (r *Rules) ValueIn(ch, what string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if of, err := r.options(ch); err != nil || of.Binary {
		return err
	}
	return check(ch, what, data)
}

// History checks publications that the application gives.
func (r *Rules) History(ch, what string, pubs []*channel.Publication) error {
	if of, err := r.options(ch); err != nil || of.Binary {
		return err
	}
	return publications(ch, what, pubs)
}

// Presence checks clients that the application gives.
func (r *Rules) Presence(ch, what string, clients map[string]*channel.ClientInfo) error {
	of, err := r.options(ch)
	if err != nil || of.Binary {
		return err
	}
	for _, c := range clients {
		err = cmp.Or(err, info(ch, what, c))
	}
	return err
}

func publications(ch, what string, pubs []*channel.Publication) error {
	for _, p := range pubs {
		if err := cmp.Or(check(ch, what, p.Data), info(ch, what, p.Info)); err != nil {
			return err
		}
	}
	return nil
}

func info(ch, what string, i *channel.ClientInfo) error {
	if i == nil {
		return nil
	}
	return cmp.Or(check(ch, what+".ConnInfo", i.ConnInfo), check(ch, what+".ChanInfo", i.ChanInfo))
}

func check(ch, what string, data []byte) error {
	if len(data) == 0 || jsonwire.Valid(data) {
		return nil
	}
	return notJSON(ch, what, data)
}

func notJSON(ch, what string, data []byte) error {
	r := jsonwire.NewReader(data)
	r.Skip()
	return &NotJSON{Channel: ch, What: what, Reason: r.End()}
}
