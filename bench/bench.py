"""The engine beside the bare path, by turns, in one run. Ratios first, counts beside them.

    ./run bench              W3 (10,000 runs of five steps) and W2 (20,000 of one), SQLite, durable
    ./run bench --short      a tenth of it, for a look
    ./run bench --account    where a step's time goes, too (needs py-spy)

Every number is the median of several pairs; engine and bare path swap places in every other pair.
One JSON line a workload ends the output, for whoever compares.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
IN_FLIGHT = 256
WORKLOADS = {"W3": (10_000, 5, "steps"), "W2": (20_000, 1, "runs")}
FLOOR, AIM = 0.4, 0.6
COMMITS_A_STEP = 0.05


def run(script: str, *arguments: object) -> dict[str, Any]:
    """Run one measurement in a process of its own and return its JSON line."""
    done = subprocess.run(
        [sys.executable, HERE / script, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def pairs(runs: int, steps: int, rounds: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Measure engine and bare path by turns."""
    found = []
    for number in range(rounds):
        order = ("drain.py", "spike.py") if number % 2 == 0 else ("spike.py", "drain.py")
        by_script = {script: run(script, runs, steps, IN_FLIGHT) for script in order}
        found.append((by_script["drain.py"], by_script["spike.py"]))
    return found


def median(measured: list[dict[str, Any]], value: str, unit: str = "runs") -> float:
    return statistics.median(m[value] / m[unit] for m in measured)


def workload(name: str, scale: float, rounds: int) -> dict[str, Any]:
    """Measure one workload, print its table, return what a program wants of it."""
    runs, steps, unit = WORKLOADS[name]
    measured = pairs(int(runs * scale), steps, rounds)
    ours, bare = [o for o, _ in measured], [b for _, b in measured]
    ratio = statistics.median(b["seconds"] / o["seconds"] for o, b in measured)
    rate = [statistics.median(m[unit] / m["seconds"] for m in side) for side in (ours, bare)]
    print(f"\n{name}: {int(runs * scale):,} runs of {steps}, {IN_FLIGHT} in flight, {rounds} pairs")
    print(f"  {'':28}{'engine':>12}{'bare path':>12}{'ratio':>8}")
    print(f"  {unit + ' a second':28}{rate[0]:12,.0f}{rate[1]:12,.0f}{ratio:8.2f}")
    rows = [
        ("commits a step", "groups", "steps"),
        ("commands a run", "commands", "runs"),
        ("log rows a run", "log_rows", "runs"),
        ("writes of the run's row a run", "row_writes", "runs"),
        ("events a run", "events", "runs"),
    ]
    for label, value, per in rows:
        print(f"  {label:28}{median(ours, value, per):12.3f}{median(bare, value, per):12.3f}")
    cpu = [median(side, "cpu_s", "steps") * 1e6 for side in (ours, bare)]
    print(f"  {'CPU µs a step':28}{cpu[0]:12.1f}{cpu[1]:12.1f}{cpu[1] / cpu[0]:8.2f}")
    return {
        "workload": name,
        "ratio": round(ratio, 3),
        "rate": round(rate[0]),
        "bare_rate": round(rate[1]),
        "commits_a_step": round(median(ours, "groups", "steps"), 4),
        "cpu_us_a_step": round(cpu[0], 1),
        "bare_cpu_us_a_step": round(cpu[1], 1),
        "started_a_second": round(statistics.median(o["starts_s"] for o in ours)),
    }


def long_run(steps: int) -> dict[str, Any]:
    """Show that a step late in a run costs what an early one does."""
    counts = run("counts.py", steps)
    print(f"\nOne run of {counts['steps']:,} steps, a commit each")
    print(f"  {'':28}{'early':>12}{'late':>12}")
    for value in ("step", "statements", "rows", "bytes"):
        print(f"  {value:28}{counts['early'][value]:12,}{counts['late'][value]:12,}")
    print(
        f"  the run's row was written {counts['run_rows']} times in {counts['steps']:,} steps"
        f" (every {counts['tail_rows']}th)"
    )
    return {"workload": "long run", **counts}


def account(scale: float) -> None:
    """Say where a step's time goes, by py-spy."""
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=Path(sys.executable).parent)
    if spy is None:
        sys.exit("--account needs py-spy: .venv/bin/python -m pip install py-spy")
    runs, steps, _ = WORKLOADS["W3"]
    runs = int(runs * scale)
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as folder:
        out = Path(folder) / "stacks.txt"
        options = ["-r", "1000", "--gil", "--nonblocking", "-f", "raw", "-o", out]
        command = [spy, "record", *options, "--"]
        work = [sys.executable, HERE / "drain.py", runs, steps, IN_FLIGHT]
        done = subprocess.run(
            list(map(str, [*command, *work])), check=True, capture_output=True, text=True
        )
        took = json.loads(next(x for x in done.stdout.splitlines() if x.startswith("{")))
        cpu_us = took["cpu_s"] / took["steps"] * 1e6
        arguments = [out, "--steps", runs * steps, "--cpu-us", cpu_us, "--top", 4]
        print(f"\nW3, µs a step of {cpu_us:.1f} (the sampler slows it down; shares hold)")
        subprocess.run(
            list(map(str, [sys.executable, HERE / "account.py", *arguments])), check=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--short", action="store_true", help="a tenth of the work, three pairs")
    parser.add_argument("--rounds", type=int, default=5, help="pairs a workload (%(default)s)")
    parser.add_argument("--account", action="store_true", help="where a step's time goes")
    asked = parser.parse_args()
    scale, rounds = (0.1, 3) if asked.short else (1.0, asked.rounds)
    found = [workload(name, scale, rounds) for name in WORKLOADS]
    found.append(long_run(2_030))
    if asked.account:
        account(scale)
    print(f"\nfloor {FLOOR} of the bare path, aim {AIM}; commits a step at most {COMMITS_A_STEP}")
    for line in found:
        print(json.dumps(line))
    if any(line.get("ratio", 1.0) < FLOOR for line in found):
        sys.exit(f"below the floor of {FLOOR}")


if __name__ == "__main__":
    main()
