package channels

import (
	"cmp"
	"strconv"
	"strings"
)

// Describe returns the options of a namespace for its subscribers that are not off.
func Describe(o *Options) map[string]string {
	options := map[string]string{"subscription_type": cmp.Or(o.SubscriptionType, "stream")}
	for option, on := range map[string]bool{
		"presence": o.Presence, "join_leave": o.JoinLeave, "force_push_join_leave": o.ForcePushJoinLeave,
		"force_recovery": o.ForceRecovery, "force_positioning": o.ForcePositioning, "allow_recovery": o.AllowRecovery,
		"allow_positioning": o.AllowPositioning, "allow_tags_filter": o.AllowTagsFilter, "batch_flush_latest": o.BatchFlushLatest,
	} {
		if on {
			options[option] = "on"
		}
	}
	if o.HistorySize > 0 && o.HistoryTTL > 0 {
		options["history_size"], options["history_ttl"] = strconv.Itoa(o.HistorySize), o.HistoryTTL.String()
	}
	if o.BatchMaxDelay > 0 {
		options["batch_max_delay"] = o.BatchMaxDelay.String()
	}
	if len(o.AllowedDeltaTypes) > 0 {
		options["allowed_delta_types"] = strings.Join(o.AllowedDeltaTypes, ",")
	}
	return options
}
