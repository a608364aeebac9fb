-- Behind publish_stream: the base of a delta is what the entry was before.
previous = ''
if ARGV[8] == '1' then
  if before then
    previous = string.char(48) .. varint(tonumber(before.offset)) .. before.payload
  else
    ARGV[8] = '0'
  end
end
