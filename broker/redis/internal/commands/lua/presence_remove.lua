-- KEYS: data, expire, and with user mapping: users, user expire
-- ARGV: 1 client
local data, expire, users, userExpire = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if users then
  local old = redis.call('HGET', data, ARGV[1])
  if old then
    forget(users, userExpire, userOf(old))
  end
end
redis.call('HDEL', data, ARGV[1])
redis.call('ZREM', expire, ARGV[1])
return 1
