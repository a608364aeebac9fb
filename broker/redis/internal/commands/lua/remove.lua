-- Removes the publications of a stream; its position stays.
-- KEYS: history
if redis.call('TYPE', KEYS[1]).ok == kind then
  redis.call('DEL', KEYS[1])
end
return 1
