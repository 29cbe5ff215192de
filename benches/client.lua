-- wrk's requests and its report.
--
--   CONNECTIONS=N wrk -c N ... URL -- REQUESTS LENGTH
--
-- REQUESTS is a file of complete requests. With LENGTH 0, wrk sends the whole file at once and runs no Lua per request
-- (it counts the requests in the file and calls that the pipeline). Otherwise the file is cut into requests of LENGTH
-- bytes, sent one after the other and then again from the first: one table access per request.

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
   -- wrk calls a global function of this name for every request.
   function request()
      at = at % count + 1
      return requests[at]
   end
end

-- Before it reports, wrk corrects for coordinated omission: for each latency of at least twice the mean interval, it
-- adds one for every interval the latency spans. (With pipelining it confuses the interval of requests with that of
-- pipelines, and percentiles come out as zero.) This function removes the additions, largest first, and so restores the
-- measured latencies. A pipeline counts once, by its last response.
local function measured(latency, requests, duration_us)
   local ffi = require "ffi"
   local stats = ffi.cast("uint64_t **", latency)[0]
   local lowest, highest = tonumber(stats[2]), tonumber(stats[3])
   assert(lowest == latency.min and highest == latency.max, "unexpected layout of wrk's statistics")
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
      assert(counts[us] >= 0, "unexpected correction of wrk's statistics")
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
