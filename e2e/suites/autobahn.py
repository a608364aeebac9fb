"""Runs cases of the Autobahn test suite against the server at an address, and prints a line of JSON for each.

    python autobahn.py ADDRESS [CASE…]
"""

import asyncio
import hashlib
import json
import os
import sys

from kosoku import FailureError, run_fuzzingclient

_sha1 = hashlib.sha1


class Sha1:
    """SHA-1 for cases that were written for Python 2, where a text is a row of bytes."""

    def __init__(self):
        self._hash = _sha1()

    def update(self, data):
        self._hash.update(data.encode("latin-1") if isinstance(data, str) else data)

    def digest(self):
        return self._hash.digest()


hashlib.sha1 = Sha1


async def main(address, cases):
    try:
        results = await run_fuzzingclient(address, cases or None, None, concurrency=8)
    except FailureError as e:
        results = e.results
    for r in results:
        fault = "" if r.passed else f"{r.behavior.value}, close {r.behavior_close.value}: {r.result} (expected: {r.expectation})"
        print(json.dumps({"case": r.case_id, "fault": fault, "ms": r.duration}))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
sys.stdout.flush()
os._exit(0)  # kosoku 0.1.0 may abort when the interpreter ends
