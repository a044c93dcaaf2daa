"""What one step costs in statements, rows and bytes, early and late in a long run. Exact.

    python bench/counts.py [STEPS]    one line of JSON

The door is called inline, a group a step, on a SQLite file; every statement its writing connection
runs is counted, and every row it changes.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from perdure.core import commands as c
from perdure.core.limits import TAIL_ROWS
from perdure.core.payload import digest, pack
from perdure.engine import Door
from perdure.engine.asks import Beat, Do, Start, Take
from perdure.store import Worker
from perdure.stores.sqlite import SqliteStore

TENANT, LEASE_US = "default", 10**12


@dataclass(frozen=True)
class Cost:
    """One step: statements (begin and commit not counted), rows changed, bytes of its log row."""

    step: int
    statements: int
    rows: int
    bytes: int
    writes_run_row: bool


def step_costs(path: Path, steps: int) -> list[Cost]:
    """Run so many steps of one run and return what each has cost."""
    store = SqliteStore(str(path))
    door = Door(store)
    worker = door.surroundings.new_id()
    door.call(Beat(Worker(worker, "bench", "here", 0, 0, door.surroundings.now() + LEASE_US)))
    payload = pack({"steps": steps}, "the input")
    door.call(
        Start(TENANT, None, "standard", c.Create("w", "q", 5, digest(payload)), payload, "me")
    )
    run = door.call(Take(worker, "q", ("w",), 1))[0].run
    seen: list[str] = []
    writer = store._writer  # noqa: SLF001 - to count what it does
    writer.set_trace_callback(seen.append)
    costs = [_one(writer, door, worker, run.id, number, seen) for number in range(1, steps + 1)]
    writer.set_trace_callback(None)
    store.close()
    return costs


def _one(
    writer: sqlite3.Connection, door: Door, worker: str, run_id: str, number: int, seen: list[str]
) -> Cost:
    call = c.Call(f"noop#{number}", digest(pack([number], "arguments")))
    began_at = door.surroundings.now()
    command = c.SucceedStep(1, call, began_at, msgspec.Raw(b"true"))
    seen.clear()
    changed = writer.total_changes
    door.call(Do(TENANT, run_id, command, worker))
    changed = writer.total_changes - changed
    mine = [s for s in seen if s.split(None, 1)[0].lower() in ("select", "insert", "update")]
    size = writer.execute(
        "select length(tenant) + length(run) + length(was) + length(actor) + length(command_id)"
        " + length(events) + 24 from log where run = ? order by seq desc limit 1",
        (run_id,),
    ).fetchone()[0]
    return Cost(number, len(mine), changed, size, any("update runs" in s for s in mine))


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2_030
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        costs = step_costs(Path(folder) / "runs.db", steps)
    early, late = costs[9], next(c for c in reversed(costs[:2_000]) if not c.writes_run_row)
    print(
        json.dumps(
            {
                "early": asdict(early),
                "late": asdict(late),
                "bytes_ratio": late.bytes / early.bytes,
                "run_rows": sum(c.writes_run_row for c in costs),
                "steps": steps,
                "tail_rows": TAIL_ROWS,
            }
        )
    )


if __name__ == "__main__":
    main()
