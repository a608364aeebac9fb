package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/internal/services"
)

// group is a Sentinel's view of a primary.
type group struct {
	primary                     string
	quorum, sentinels, replicas int
	down                        bool
}

// sentinels returns the shard with the Sentinels that answer, so that a dead one hides no fault behind them; with all,
// if none answers.
func (d *doctor) sentinels(ctx context.Context, key, name string, s *redis.Shard) *redis.Shard {
	const area = "redis"
	var groups []group
	live, mute := *s, 0
	live.Addresses = nil
	for _, address := range s.Addresses {
		g, err := d.sentinel(ctx, s, address)
		if err == nil {
			live.Addresses, groups = append(live.Addresses, address), append(groups, g)
			continue
		}
		mute++
		option, status := sentinelOption(err), Warn
		if option != "sentinel_address" || len(s.Addresses) == 1 {
			status = Fail // no other Sentinel would help
		}
		d.report(area, status, "start it, or correct "+key+"."+option, "%s: Sentinel %s: %s", name, address, secretless(bare(err)))
	}
	if len(groups) == 0 {
		return s
	}
	d.group(name, groups, mute)
	return &live
}

func bare(err error) error {
	if of, ok := errors.AsType[*services.OptionError](err); ok {
		return of.Err
	}
	return err
}

func sentinelOption(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"):
		return "sentinel_password"
	case strings.Contains(text, "No such master"):
		return "sentinel_master_name"
	}
	if named, ok := asOption(err); ok && strings.Contains(named, "tls") {
		return "sentinel_tls"
	}
	return "sentinel_address"
}

func (d *doctor) sentinel(ctx context.Context, s *redis.Shard, address string) (g group, err error) {
	one := redis.Shard{
		Addresses: []string{address}, User: s.SentinelUser, Password: s.SentinelPassword, ClientName: s.SentinelClientName, TLS: s.SentinelTLS,
		SentinelTLS: s.SentinelTLS, ConnectTimeout: s.ConnectTimeout, IOTimeout: s.IOTimeout, ForceRESP2: s.ForceRESP2,
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	client, err := services.Redis(ctx, &one, "sentinel_address")
	if err != nil {
		return g, err
	}
	defer client.Close()
	primary, err := client.Do(ctx, client.B().Arbitrary("SENTINEL", "MASTER", s.SentinelMaster).Build()).AsStrMap()
	if err != nil {
		return g, err
	}
	others, _ := strconv.Atoi(primary["num-other-sentinels"])
	g.quorum, _ = strconv.Atoi(primary["quorum"])
	g.primary, g.sentinels, g.down = primary["ip"]+":"+primary["port"], others+1, strings.Contains(primary["flags"], "_down")
	g.replicas, err = replicas(ctx, client, s.SentinelMaster)
	return g, err
}

func replicas(ctx context.Context, client rueidis.Client, primary string) (n int, err error) {
	list, err := client.Do(ctx, client.B().Arbitrary("SENTINEL", "REPLICAS", primary).Build()).ToArray()
	for i := range list {
		fields, err := list[i].AsStrMap()
		if err != nil {
			return n, err
		}
		if flags := fields["flags"]; !strings.Contains(flags, "_down") && !strings.Contains(flags, "disconnected") {
			n++
		}
	}
	return n, err
}

func (d *doctor) group(name string, groups []group, mute int) {
	const area = "redis"
	g := groups[0]
	need := max(g.quorum, g.sentinels/2+1) // the quorum says that the primary is down, a majority lets one of them replace it
	for _, other := range groups[1:] {
		if other.primary != g.primary {
			d.report(area, Fail, "look at sentinel get-master-addr-by-name of each: they watch different groups, or are cut off from each other", "%s: Sentinels name different primaries, %s and %s", name, g.primary, other.primary)
		}
	}
	text := fmt.Sprintf("%d Sentinels know each other, %d of those that are configured answer, quorum %d, %d replicas of %s", g.sentinels, len(groups), g.quorum, g.replicas, g.primary)
	switch {
	case g.down:
		d.report(area, Fail, "start it, or wait for the failover", "%s: the Sentinels say that the primary %s is down", name, g.primary)
	case g.replicas == 0:
		d.report(area, Warn, "give the primary a replica", "%s: the primary %s has no replica that the Sentinels can reach: if it fails, nothing takes over", name, g.primary)
	case g.sentinels-mute < need:
		d.report(area, Fail, "start Sentinels", "%s: too few Sentinels for a failover: %s, and %d are needed", name, text, need)
	case g.sentinels-1 < need:
		d.report(area, Warn, "run three or more, on machines of their own", "%s: without one Sentinel there is no failover: %s, and %d are needed", name, text, need)
	default:
		d.report(area, OK, "", "%s: %s", name, text)
	}
}
