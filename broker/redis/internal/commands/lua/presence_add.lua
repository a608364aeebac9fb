-- KEYS: data, expire, and with user mapping: users, user expire
-- ARGV: 1 TTL in ms, 2 client, 3 info, 4 user
local data, expire, users, userExpire = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ttl, client, info, user = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ends = score(now() + ttl / 1000)
if users then
  revive(users, userExpire, ends)
  count(users, userExpire, user, redis.call('HGET', data, client))
  redis.call('PEXPIRE', users, ttl)
  redis.call('ZADD', userExpire, ends, user)
  redis.call('PEXPIRE', userExpire, ttl)
end
revive(data, expire, ends)
redis.call('HSET', data, client, info)
redis.call('PEXPIRE', data, ttl)
redis.call('ZADD', expire, ends, client)
redis.call('PEXPIRE', expire, ttl)
return 1
