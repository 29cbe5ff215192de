"""curl, as Python's curl_cffi brings it: fetches files over HTTP/3 and compares them with those of a folder.

    URL FOLDER NAME...    the first alone, then the others at once; prints what it saw as JSON

Exit code 3: curl_cffi is not installed.
"""

import asyncio
import json
import os
import sys

try:
    from curl_cffi import CurlHttpVersion, CurlInfo
    from curl_cffi.requests import AsyncSession
except ImportError:
    sys.exit(3)


async def main(url, folder, names):
    # All at once, over the connection of the first.
    async with AsyncSession(verify=False, http_version=CurlHttpVersion.V3ONLY, timeout=100, max_clients=len(names)) as session:

        async def get(name):
            answer = await session.get(url + name)
            with open(os.path.join(folder, name), "rb") as file:
                wanted = file.read()
            if (answer.http_version, answer.status_code) != (30, 200) or answer.content != wanted:
                sys.exit(f"{name}: HTTP {answer.http_version}, {answer.status_code}, {len(answer.content)} of {len(wanted)} bytes")
            return len(wanted)

        first = await get(names[0])
        others = await asyncio.gather(*(get(name) for name in names[1:]))
        print(json.dumps({"files": len(names), "bytes": first + sum(others)}))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
