-- Fields with lives of their own: Redis 7.4 and later.
-- KEYS: data, and with user mapping: users
-- ARGV: 1 TTL in ms, 2 client, 3 info, 4 user
local data, users = KEYS[1], KEYS[2]
local ttl, client, info, user = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if users then
  count(users, nil, user, redis.call('HGET', data, client))
  redis.call('HPEXPIRE', users, ttl, 'FIELDS', 1, user)
  redis.call('PEXPIRE', users, ttl)
end
redis.call('HSET', data, client, info)
redis.call('HPEXPIRE', data, ttl, 'FIELDS', 1, client)
redis.call('PEXPIRE', data, ttl)
return 1
