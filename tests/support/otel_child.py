"""A process that sends traces until it is killed: ``python -m tests.support.otel_child url to``."""

from __future__ import annotations

import asyncio
import sys

from ekiden.project import open_store
from ekiden.tracing.otel_follower import FollowPolicy, OtelFollower


async def main() -> None:
    url, endpoint = sys.argv[1:]
    async with open_store(url) as store:
        policy = FollowPolicy(page=3, lease_s=0.5, first_pause_s=0.02, longest_pause_s=0.05)
        follower = OtelFollower(store, endpoint=endpoint, from_start=True, policy=policy)
        await follower.run()


if __name__ == "__main__":
    asyncio.run(main())
