-- KEYS: data, expire, users, user expire
clean(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
return {redis.call('HLEN', KEYS[1]), redis.call('HLEN', KEYS[3])}
