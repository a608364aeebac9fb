-- KEYS: data, expire, and with user mapping: users, user expire
clean(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
return redis.call('HGETALL', KEYS[1])
