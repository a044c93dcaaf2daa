"""One drain of waiting runs through the public API: what a worker process does all day.

    python bench/drain.py RUNS STEPS IN_FLIGHT    one line of JSON; TMPDIR says on which disk

The runs are started first and not timed. Then one app goes to work, as `perdure work` would, until
every run is over and that is on the disk. What is counted comes from the file, not from the code.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from perdure import App, step, workflow
from perdure.worker import tune_process

FEEDERS = 256
LOOK_S = 0.002
COUNT = """select count(*), sum(json_array_length(events)) from log
    where events not like '[{"type":"run.created"%'"""
BYTES = "select sum(length(events)) from log"
WAITING = "select count(*) from runs where finished_at is null"

finished = 0


@step
async def noop(number: int) -> int:
    return number


@workflow
async def chain(steps: int) -> int:
    global finished  # noqa: PLW0603 - the drain looks at the file only when the last body has ended
    total = 0
    for number in range(steps):
        total += await noop(number)
    finished += 1
    return total


async def drain(path: Path, runs: int, steps: int, in_flight: int) -> dict[str, float]:
    app = App(f"sqlite:///{path}", workflows=[chain], at_most=in_flight)

    async def feed(share: int) -> None:
        for _ in range(share):
            await app.start(chain, steps)

    shares = [len(range(i, runs, FEEDERS)) for i in range(FEEDERS)]
    before = time.perf_counter()
    await asyncio.gather(*(feed(share) for share in shares))
    start_s = time.perf_counter() - before
    door = app.writer.door
    groups, commands = door.groups, door.commands
    with closing(sqlite3.connect(path)) as look:
        before, cpu = time.perf_counter(), time.process_time()
        async with app:
            while finished < runs or look.execute(WAITING).fetchone()[0]:
                await asyncio.sleep(LOOK_S)
            seconds, cpu = time.perf_counter() - before, time.process_time() - cpu
            groups, commands = door.groups - groups, door.commands - commands
        rows, events = look.execute(COUNT).fetchone()
        size = look.execute(BYTES).fetchone()[0]
    return {
        "seconds": seconds,
        "starts_s": runs / start_s,
        "runs": runs,
        "steps": runs * steps,
        "groups": groups,
        "commands": commands,
        "log_rows": rows,
        "row_writes": door.row_writes - runs,
        "events": events,
        "log_bytes": size,
        "cpu_s": cpu,
    }


def main() -> None:
    runs, steps, in_flight = map(int, sys.argv[1:4])
    tune_process()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        print(json.dumps(asyncio.run(drain(Path(folder) / "runs.db", runs, steps, in_flight))))


if __name__ == "__main__":
    main()
