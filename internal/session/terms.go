package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/internal/tagsfilter"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

var (
	errFilterOff = refusal.Because(protocol.ErrorBadRequest, "SubscribeOptions.AllowTagsFilter", "the subscription may not have a tags filter")
	errFilter    = refusal.Because(protocol.ErrorBadRequest, "", "the tags filter is malformed")
)

// terms are agreed values that few subscriptions have. Subscriptions share them; they are never modified once Shared has
// returned them.
type terms struct {
	clientFilter, serverFilter *tagsfilter.Filter
	mixed                      bool // the client's filter was replaced by another one

	ChanInfo []byte
	ExpireAt int64 // seconds of Env.Now, 0 for never
	Feed     channel.Feed
	// Keys is nil unless the channel is a shared poll.
	Keys         *sharedpoll.Keys
	PresenceMaps []channel.PresenceMap
	// Token may be nil.
	Token *channel.Token
	// rights and needs are as in channel.SubscribeOptions.
	rights, needs channel.Rights
}

// plain are the terms of most subscriptions, by rights and needs.
var plain = func() (all [16][16]terms) {
	for rights := range all {
		for needs := range all[rights] {
			all[rights][needs] = terms{rights: channel.Rights(rights), needs: channel.Rights(needs)}
		}
	}
	return all
}()

// Shared returns terms to keep. Plain ones take no memory.
func (t terms) Shared() *terms {
	if t.clientFilter == nil && t.serverFilter == nil && t.ChanInfo == nil && t.ExpireAt == 0 && t.Feed == nil && t.Keys == nil &&
		len(t.PresenceMaps) == 0 && t.Token == nil {
		return &plain[t.rights&15][t.needs&15]
	}
	kept := t // only this takes memory
	return &kept
}

func closeFeed(f channel.Feed) {
	if f != nil {
		f.Close()
	}
}

// SetFilters sets the server's filter of o, and the client's tf, each unless it is nil.
func (t *terms) SetFilters(o *channel.SubscribeOptions, tf *protocol.FilterNode) error {
	if tf != nil {
		if !o.AllowTagsFilter {
			return errFilterOff
		}
		f, err := tagsfilter.Compile(tf)
		if err != nil {
			return errFilter
		}
		t.mixed = t.mixed || t.clientFilter != nil && t.clientFilter.ID() != f.ID()
		t.clientFilter = f
	}
	return t.SetServerFilter(o.ServerTagsFilter)
}

// Refiltered returns terms whose client's filter is tf, unless that is nil or wrong.
func (t *terms) Refiltered(o *channel.SubscribeOptions, tf *protocol.FilterNode) (*terms, error) {
	if tf == nil {
		return t, nil
	}
	other := *t
	if err := other.SetFilters(o, tf); err != nil {
		return t, err
	}
	return other.Shared(), nil
}

func (t *terms) Lets(p *channel.Publication) bool { return !t.Filtered() || t.Passes(p.Tags) }

func (t *terms) SetServerFilter(tf *protocol.FilterNode) error {
	if tf == nil {
		return nil
	}
	f, err := tagsfilter.Compile(tf)
	if err == nil {
		t.serverFilter = f
	}
	return err
}

func (t *terms) SameServerFilter(other *terms) bool {
	return t.serverFilter.ID() == other.serverFilter.ID()
}

func (t *terms) FilteredByServer() bool { return t.serverFilter != nil }

func (t *terms) Filtered() bool { return t.clientFilter != nil || t.serverFilter != nil }

func (t *terms) Passes(tags map[string]string) bool {
	return t.serverFilter.Match(tags) && t.clientFilter.Match(tags)
}

// Passed tells whether the filters have let an earlier publication through. Nothing is known of a client that has
// changed its filter.
func (t *terms) Passed(tags map[string]string) bool { return !t.mixed && t.Passes(tags) }
