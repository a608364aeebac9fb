-- Appends to a STREAM: entries with the ID <offset>-0 and the field d.
local previous = ''
if offset == 1 then -- what is there is of an earlier life, whose meta was evicted
  if call('TYPE', history).ok == 'stream' then
    call('DEL', history)
  end
elseif ARGV[8] == '1' then
  local entry = call('XREVRANGE', history, '+', '-', 'COUNT', '1')[1]
  previous = entry and entry[2][2] or ''
end
local failure = pcall('XADD', history, 'MAXLEN', ARGV[2], number .. '-0', 'd', ARGV[1])
if not failure.err then
  failure = nil
end
