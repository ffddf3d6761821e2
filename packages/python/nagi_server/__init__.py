"""A MongoDB-compatible server for tests: Nagi, with its data in memory.

    import nagi_server, pymongo

    with nagi_server.run() as uri:
        pymongo.MongoClient(uri).shop.orders.insert_one({"item": "tea"})

The server is a process of its own. It leaves no files behind, and ends with this process, even if that is killed.
`async with nagi_server.run() as uri` does the same in an event loop; `nagi_server.start()` returns the server itself.
"""
from __future__ import annotations

import asyncio
import functools
from typing import Any

from ._process import Server, StartError, binary_path, start

__all__ = ["Server", "StartError", "binary_path", "run", "start"]
__version__ = "0.1.0"


class run:
    """A context manager, also an asynchronous one: the URI of a server that runs inside. Options as in `start`."""

    _server: Server

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __enter__(self) -> str:
        self._server = start(**self._options)
        return self._server.uri

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    async def __aenter__(self) -> str:
        loop = asyncio.get_running_loop()
        self._server = await loop.run_in_executor(None, functools.partial(start, **self._options))
        return self._server.uri

    async def __aexit__(self, *_: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._server.stop)
