-- Behind position: reads publications of the stream (engines.md 8.7).
-- ARGV, which may be left out: 3 'f' or 'r' (reverse), 4 start, 5 limit or ''
-- Returns top, or an array of top and the publications.
if not ARGV[3] then
  return top
end
return {top, read(history, ARGV[3], ARGV[4], ARGV[5])}
