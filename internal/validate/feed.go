package validate

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

type feed struct {
	channel.Feed
	channel string
	rules   *Rules
}

// Feed returns f with a check of its payloads.
func (r *Rules) Feed(ch string, f channel.Feed) channel.Feed { return &feed{f, ch, r} }

// FeedOf returns the application's Feed; nil if there is none.
func FeedOf(f channel.Feed) channel.Feed {
	if own, ok := f.(*feed); ok {
		return own.Feed
	}
	return nil
}

func (f *feed) Run(publish func(*channel.Publication) error) protocol.Unsubscribe {
	return f.Feed.Run(func(p *channel.Publication) error {
		if err := f.rules.ValueIn(f.channel, "the publication of a Feed", p.Data); err != nil {
			return err
		}
		return publish(&channel.Publication{Data: p.Data, Info: p.Info, Tags: p.Tags})
	})
}
