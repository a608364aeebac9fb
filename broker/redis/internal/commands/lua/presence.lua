-- What the scripts of presence share (engines.md 8.8). A client's entry is a
-- field of the hash data; its life is a score of the sorted set expire, or the
-- field's own. With users, the hash users counts the clients of each user.

-- userOf reads the user from a Protobuf ClientInfo: field 1, which comes first.
local function userOf(info)
  if string.byte(info, 1) ~= 10 then
    return ''
  end
  local size, factor, at = 0, 1, 2
  while true do
    local byte = string.byte(info, at)
    if not byte then
      return ''
    end
    size = size + (byte % 128) * factor
    at = at + 1
    if byte < 128 then
      break
    end
    factor = factor * 128
  end
  return string.sub(info, at, at + size - 1)
end

-- forget takes one client off the user's count.
local function forget(users, userExpire, user)
  if redis.call('HINCRBY', users, user, -1) <= 0 then
    redis.call('HDEL', users, user)
    if userExpire then
      redis.call('ZREM', userExpire, user)
    end
  end
end

local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end

local function score(time)
  return string.format('%.3f', time)
end

-- revive gives the fields of a hash a life if Redis has evicted the sorted set with their lives.
local function revive(hash, lives, ends)
  if #redis.call('ZRANGE', lives, 0, 0) == 0 then
    local fields = redis.call('HGETALL', hash)
    for i = 1, #fields, 2 do
      redis.call('ZADD', lives, ends, fields[i])
    end
  end
end

-- count adds one client to the user's count, and takes old, the client's entry before or false, off the count of its user.
local function count(users, userExpire, user, old)
  local before = old and userOf(old)
  if before == user and redis.call('HEXISTS', users, user) == 1 then
    return
  end
  if old and before ~= user then
    forget(users, userExpire, before)
  end
  redis.call('HINCRBY', users, user, 1)
end

-- clean removes what has outlived its time.
local function clean(data, expire, users, userExpire)
  local time = score(now())
  for _, client in ipairs(redis.call('ZRANGEBYSCORE', expire, 0, time)) do
    if users then
      local info = redis.call('HGET', data, client)
      if info then
        forget(users, userExpire, userOf(info))
      end
    end
    redis.call('HDEL', data, client)
    redis.call('ZREM', expire, client)
  end
  if users then -- those of nodes that do not count exactly
    for _, user in ipairs(redis.call('ZRANGEBYSCORE', userExpire, 0, time)) do
      redis.call('HDEL', users, user)
      redis.call('ZREM', userExpire, user)
    end
  end
end
