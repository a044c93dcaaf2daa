"""THE MEMORY: those who keep the promise. A URL's scheme chooses one."""

from __future__ import annotations

import os

from perdure.core.errors import StoreError
from perdure.store import Store


def open_store(url: str, *, create: bool = True) -> Store:
    """Open the store a URL names: `memory://` or `sqlite:///path/to/file.db`.

    As with other tools, three slashes begin a path relative to the working directory and four
    an absolute one. A bare path that ends in `.db` means SQLite. With `create=False` a file that
    is not there is refused instead of made, as a command that only looks wants it.
    """
    if not isinstance(url, str):
        raise StoreError(f"{url!r} is no URL; write memory:// or sqlite:///runs.db")
    scheme, separator, rest = url.partition("://")
    if not separator and url.endswith(".db"):
        scheme, rest = "sqlite", "/" + url
    match scheme:
        case "memory":
            from perdure.stores.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            from perdure.stores.sqlite import SqliteStore

            path = rest.removeprefix("/")
            if not path or path.startswith(":memory:"):
                raise StoreError(
                    f"'{url}' names no file; write sqlite:///runs.db, or memory:// for a store "
                    "that lasts no longer than its process"
                )
            if not create and not os.path.exists(path):
                raise StoreError(
                    f"there is no file {os.path.abspath(path)}; check the URL, or start a run first"
                )
            return SqliteStore(path)
        case _:
            raise StoreError(
                f"'{url}' is no store perdure knows; write memory:// or sqlite:///runs.db"
            )
