-- What wrk sends, and what it reports.
--
--   CONNECTIONS=N wrk -c N ... URL -- REQUESTS LENGTH
--
-- REQUESTS is a file of whole requests. With LENGTH 0 all of it is sent at once and unchanged, so
-- wrk runs no Lua per request (it counts the requests in it and calls that the pipeline). Else the
-- file is cut into requests of LENGTH bytes each, sent one after the other and then again from the
-- first: one table access per request, nothing built.

wrk.init = function(args)
   local file = assert(io.open(args[1], "rb"))
   local text = file:read("*a")
   file:close()
   local length = tonumber(args[2])
   if length == 0 then
      wrk.request = function() return text end
      return
   end
   local requests, count, at = {}, #text / length, 0
   for i = 1, count do
      requests[i] = text:sub((i - 1) * length + 1, i * length)
   end
   -- A global of this name is what makes wrk ask for every request.
   function request()
      at = at % count + 1
      return requests[at]
   end
end

-- Before it reports, wrk adds latencies it thinks were omitted: below each one of at least twice the
-- mean interval, one more for every interval it spans. (With pipelining it takes the interval of
-- requests for that of pipelines, and percentiles come out as zero.) The additions are taken out
-- again, largest first, which leaves what was measured; a pipeline counts once, by its last answer.
local function measured(latency, requests, duration_us)
   local ffi = require "ffi"
   local stats = ffi.cast("uint64_t **", latency)[0]
   local lowest, highest = tonumber(stats[2]), tonumber(stats[3])
   assert(lowest == latency.min and highest == latency.max, "wrk keeps its statistics in another way")
   local counts = {}
   for us = 0, highest do
      counts[us] = tonumber(stats[4 + us])
   end
   local rounds = math.floor(requests / tonumber(os.getenv("CONNECTIONS")))
   if rounds > 0 then
      local interval = math.floor(duration_us / rounds)
      for us = highest, 2 * interval, -1 do
         local below = us - interval
         while counts[us] > 0 and below > interval do
            counts[below] = counts[below] - counts[us]
            below = below - interval
         end
      end
   end
   local total = 0
   for us = 0, highest do
      assert(counts[us] >= 0, "wrk corrects its statistics in another way")
      total = total + counts[us]
   end
   return function(percent)
      local wanted, seen = total * percent / 100, 0
      for us = 0, highest do
         seen = seen + counts[us]
         if seen > 0 and seen >= wanted then return us end
      end
      return highest
   end
end

function done(summary, latency, requests)
   local e = summary.errors
   local known, percentile = pcall(measured, latency, summary.requests, summary.duration)
   if not known then
      io.write("NOTE ", tostring(percentile), "\n")
      percentile = function(percent) return latency:percentile(percent) end
   end
   io.write(string.format(
      'RESULT {"requests":%d,"bytes":%.0f,"duration_us":%.0f,"p50_us":%.0f,"p90_us":%.0f,"p99_us":%.0f,"max_us":%.0f,' ..
      '"latency_as_measured":%s,"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
      summary.requests, summary.bytes, summary.duration,
      percentile(50), percentile(90), percentile(99), latency.max, tostring(known),
      e.connect, e.read, e.write, e.status, e.timeout))
end
