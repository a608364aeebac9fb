-- Appends to a LIST: envelopes, the newest at the head.
local previous = ''
if offset == 1 then -- what is there is of an earlier life, whose meta was evicted
  if call('TYPE', history).ok == 'list' then
    call('DEL', history)
  end
elseif ARGV[8] == '1' then
  previous = payload(call('LINDEX', history, 0))
end
local failure = pcall('LPUSH', history, envelope)
if type(failure) ~= 'table' then
  failure = nil
  pcall('LTRIM', history, 0, ARGV[2] - 1)
end
