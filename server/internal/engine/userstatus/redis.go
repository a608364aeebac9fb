package userstatus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/address"
	"github.com/gyrohq/gyro/server/internal/services"
)

// Redis is a Store in Redis, for all nodes. Each user is a hash with the fields active, online and state, under the key
// PREFIX.user_status.USER, which expires. A call is one round trip per server.
type Redis struct {
	shards []redis.Shard
	// Keys of the configuration.
	section, addressKey string
	prefix              string
	expire              time.Duration
	patience            time.Duration
	clients             []rueidis.Client
}

const callTime = 5 * time.Second

// merging is Status.merge. The arguments are active, online, state and the expire interval in seconds.
var merging = rueidis.NewLuaScript(`
for i, field in ipairs({'active', 'online'}) do
  local at = tonumber(ARGV[i])
  if at > 0 and at > tonumber(redis.call('HGET', KEYS[1], field) or '0') then
    redis.call('HSET', KEYS[1], field, ARGV[i])
  end
end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'state', ARGV[3])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 0`)

// NewRedis returns a store that forgets users after a time. It connects to nothing.
func NewRedis(section, addressKey string, shards []redis.Shard, prefix string, expire time.Duration) *Redis {
	return &Redis{shards: shards, section: section, addressKey: addressKey, prefix: prefix + ".user_status.", expire: expire}
}

// Start implements Store.
func (r *Redis) Start(ctx context.Context) error {
	until := time.Now().Add(r.patience)
	for attempts := 1; ; attempts++ {
		err := r.connect(ctx)
		if left := time.Until(until); err != nil && left > 0 {
			select {
			case <-time.After(min(services.Backoff(attempts), left)):
				continue
			case <-ctx.Done():
			}
		}
		return err
	}
}

func (r *Redis) connect(ctx context.Context) error {
	for i := range r.shards {
		client, err := services.Redis(ctx, &r.shards[i], r.addressKey)
		if err != nil {
			r.Close()
			r.clients = nil
			if _, named := errors.AsType[*services.OptionError](err); named {
				return fmt.Errorf("%s.%w", r.section, err)
			}
			return fmt.Errorf("%s: %w", r.section, err)
		}
		r.clients = append(r.clients, client)
	}
	return nil
}

// Close implements Store.
func (r *Redis) Close() {
	for _, client := range r.clients {
		client.Close()
	}
}

var errNotStarted = errors.New("the storage of user status is not connected")

func (r *Redis) each(ctx context.Context, users []string, do func(ctx context.Context, client rueidis.Client, places []int) error) error {
	if len(r.clients) == 0 {
		return errNotStarted
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	places := make([][]int, len(r.clients))
	for i, user := range users {
		shard := address.ShardOf(user, len(r.clients))
		places[shard] = append(places[shard], i)
	}
	var errs []error
	for i, of := range places {
		if len(of) > 0 {
			if err := do(ctx, r.clients[i], of); err != nil {
				errs = append(errs, fmt.Errorf("shard %d of %s: %w", i, r.section, err))
			}
		}
	}
	return errors.Join(errs...)
}

func first(replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Update implements Store.
func (r *Redis) Update(ctx context.Context, users []string, later Status) error {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []string{number(later.Active), number(later.Online), later.State, number(max(int64(r.expire/time.Second), 1))}
	return r.each(ctx, users, func(ctx context.Context, client rueidis.Client, places []int) error {
		if len(places) == 1 {
			return merging.Exec(ctx, client, []string{r.prefix + users[places[0]]}, args).Error()
		}
		calls := make([]rueidis.LuaExec, len(places))
		for n, i := range places {
			calls[n] = rueidis.LuaExec{Keys: []string{r.prefix + users[i]}, Args: args}
		}
		return first(merging.ExecMulti(ctx, client, calls...))
	})
}

// Get implements Store.
func (r *Redis) Get(ctx context.Context, users []string) ([]Status, error) {
	list := make([]Status, len(users))
	err := r.each(ctx, users, func(ctx context.Context, client rueidis.Client, places []int) error {
		calls := make(rueidis.Commands, len(places))
		for n, i := range places {
			calls[n] = client.B().Hmget().Key(r.prefix+users[i]).Field("active", "online", "state").Build()
		}
		for n, reply := range client.DoMulti(ctx, calls...) {
			fields, err := reply.ToArray()
			if err != nil {
				return err
			}
			if list[places[n]], err = statusOf(fields); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func statusOf(fields []rueidis.RedisMessage) (s Status, err error) {
	if len(fields) != 3 {
		return s, fmt.Errorf("HMGET returned %d values", len(fields))
	}
	for i, to := range []*int64{&s.Active, &s.Online} {
		text, err := fields[i].ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err == nil {
			*to, err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil {
			return s, err
		}
	}
	if s.State, err = fields[2].ToString(); rueidis.IsRedisNil(err) {
		err = nil
	}
	return s, err
}

// Delete implements Store.
func (r *Redis) Delete(ctx context.Context, users []string) error {
	return r.each(ctx, users, func(ctx context.Context, client rueidis.Client, places []int) error {
		calls := make(rueidis.Commands, len(places))
		for n, i := range places {
			calls[n] = client.B().Unlink().Key(r.prefix + users[i]).Build()
		}
		return first(client.DoMulti(ctx, calls...))
	})
}
