"""Who may write to a SQLite file next: two lock files that make several processes take turns.

SQLite's own lock is taken by whoever asks at the right moment, and a busy writer asks again so
soon that others starve. Here each writer first takes the lock `turn`, then the lock `write`,
and gives back `turn` while it works: so at most one waits at `write` and all others queue at
`turn`, and who has just written stands at the end. Opening, checkpointing and closing pass the
same way, so two connections never write or checkpoint at once.

`flock` belongs to the open file: a process has one turnstile a file, and it is never nested.
"""

from __future__ import annotations

import fcntl
import os
import threading
from types import TracebackType
from weakref import WeakSet


class Turnstile:
    """The right to write to one file, for one process at a time."""

    def __init__(self, path: str) -> None:
        self._inside = threading.Lock()
        self._turn = os.open(path + ".turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._write = os.open(path + ".write", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        _ours.add(self)

    def enter(self) -> None:
        """Wait for the right to write."""
        self._inside.acquire()
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._write, fcntl.LOCK_EX)
            finally:
                fcntl.flock(self._turn, fcntl.LOCK_UN)
        except BaseException:
            self._inside.release()
            raise

    def leave(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._write, fcntl.LOCK_UN)
        self._inside.release()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def close(self) -> None:
        """Close the lock files; they stay on disk, or a newcomer would lock another file."""
        for handle in (self._turn, self._write):
            if handle >= 0:
                os.close(handle)
        self._turn = self._write = -1


class LifeLocks:
    """One locked file a worker: as long as its process lives, nobody else gets the lock.

    The lock proves death only; life is the lease.
    """

    def __init__(self, path: str) -> None:
        self._folder = path + ".workers"
        self._held: dict[str, int] = {}
        _ours.add(self)

    def hold(self, worker: str) -> None:
        """Lock this worker's file. A second lock would wait for the first, for ever."""
        if worker in self._held:
            return
        os.makedirs(self._folder, exist_ok=True)
        handle = os.open(self._path(worker), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self._held[worker] = handle

    def is_dead(self, worker: str) -> bool:
        """Say whether the worker's process is certainly gone: its file can be locked."""
        if worker in self._held:
            return False
        try:
            handle = os.open(self._path(worker), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def forget(self, worker: str) -> None:
        """Remove the file of a worker whose row is gone."""
        handle = self._held.pop(worker, None)
        if handle is not None:
            os.close(handle)
        try:
            os.unlink(self._path(worker))
        except OSError:
            return  # gone already, or not ours to remove: what stays is untidy and no more

    def close(self) -> None:
        """Let go of all our workers' locks."""
        while self._held:
            _, handle = self._held.popitem()
            os.close(handle)

    def _path(self, worker: str) -> str:
        return os.path.join(self._folder, worker)


def _let_go() -> None:
    """A child that outlives its parent must not keep its locks: nobody would ever write again."""
    for locks in list(_ours):
        locks.close()


_ours: WeakSet[Turnstile | LifeLocks] = WeakSet()
os.register_at_fork(after_in_child=_let_go)
