"""Where the time of a step goes: a py-spy recording, told by the rooms of the engine.

    py-spy record --nonblocking -f raw -r 500 -o stacks.txt -- python bench/spike.py 100000 5 256
    python bench/account.py stacks.txt --steps 500000 --within 'Runner.run|_bootstrap_inner'

A sample belongs to the innermost of its frames that a row of CATEGORIES names; a frame that none
names counts for its caller. A stack with an import in it is left out.

Without `--nonblocking` py-spy stops the process for each sample, and then samples fall on calls
that let go of the GIL: timed by hand, codec and evolve of the bare path cost the same; with stops
it showed 3.7 µs a step against none, without stops 0.6 against 0.7. Even so, read an account as the
order of the costs, and time by hand what matters.

py-spy records the threads that are not idle, and takes one that waits for the disk for a busy one:
the sum is time of threads, more than CPU. `--gil` records only who holds the GIL, which is what a
process cannot do twice at once. `--native` makes C functions frames too, so that JSON is told from
the room that asked for it, but it stops the process and slows it down two to three times. A sampler
that falls behind takes fewer samples than it was asked for; `--cpu-us` gives what a step took by
the process's own clock, and that is shared out instead.
"""

import argparse
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

# What a frame, "function (path:line)", is; the first row that fits decides, None asks the caller.
CATEGORIES = (
    ("waiting for the GIL", r"^(take_gil|pthread_cond_timedwait) "),
    ("codec", r"perdure/core/(codec|payload)\b|^\w*(json|JSON|ncode)\w* \(msgspec/"),
    ("decide", r"perdure/core/(decide|commands|retry)\b"),
    ("evolve", r"perdure/core/(law|absorb|states)\b|perdure/profiles\b"),
    ("store", r"perdure/stores?\b|\b(lib|_)?sqlite3?\b(?!\.py)|\bpsycopg|\blibpq\b"),
    ("queue and wake-up", r"perdure/engine/writer\b|[(/](asyncio|concurrent)/|_asynciomodule\.c"),
    ("queue and wake-up", r"[(/](queue|threading|selectors)\.py|(select|socket)module\.c"),
    ("door", r"perdure/engine\b"),
    ("authoring", r"perdure/(context|workflow|templates)\b"),
    ("worker", r"perdure/(worker|loop)\b"),
    ("the rest of perdure", r"[(/]perdure/(?!bench|tests|examples)"),
    # The bare path has all its rooms in one file.
    ("codec", r"^entry \(.*\bspike\.py"),
    ("decide", r"^decide \(.*\bspike\.py"),
    ("evolve", r"^evolve\b.*\bspike\.py"),
    ("store", r"^Door\.(claim|write)\b.*\bspike\.py"),
    ("queue and wake-up", r"^(Door\.ask|settle) \(.*\bspike\.py"),
    ("door", r"^Door\b.*\bspike\.py"),
    ("worker", r"^work\b.*\bspike\.py"),
    (None, rf"\(({'|'.join(sys.stdlib_module_names)}|msgspec)(/|\.py)|<frozen "),
    ("user code", r"\.py\b"),
)
IMPORT = "<frozen importlib"


@cache
def category(frame: str) -> str | None:
    return next((name for name, pattern in CATEGORIES if re.search(pattern, frame)), None)


def place(stack: list[str]) -> tuple[str, str]:
    """Find the category of a stack, and the function that decided it."""
    for frame in reversed(stack):
        if name := category(frame):
            return name, re.sub(r":\d+\)$", ")", frame)
    return "other", re.sub(r":\d+\)$", ")", stack[-1])


def read(path: Path, within: str) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Count the samples of each place, and those that are left out, by reason."""
    places: Counter[tuple[str, str]] = Counter()
    left_out: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        joined, _, samples = line.rpartition(" ")
        if IMPORT in joined:
            left_out["importing"] += int(samples)
        elif not re.search(within, joined):
            left_out["not within"] += int(samples)
        else:
            places[place(joined.split(";"))] += int(samples)
    return places, left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("recording", type=Path, help="what `py-spy record -f raw` wrote")
    parser.add_argument("--steps", type=int, required=True, help="how many steps it saw")
    parser.add_argument("--rate", type=int, default=500, help="samples a second (%(default)s)")
    parser.add_argument("--cpu-us", type=float, help="what a step took in all; then no rate")
    parser.add_argument("--within", default="", help="only stacks in which this expression occurs")
    parser.add_argument("--top", type=int, default=0, help="functions to show of each category")
    asked = parser.parse_args()

    places, left_out = read(asked.recording, asked.within)
    total = places.total()
    if not total:
        sys.exit("no sample is left to count")
    whole = asked.cpu_us or total / asked.rate / asked.steps * 1e6

    def row(name: str, samples: int) -> str:
        return f"{name:<60} {whole * samples / total:8.2f} µs {samples / total:7.1%}"

    categories: Counter[str] = Counter()
    for (name, _), samples in places.items():
        categories[name] += samples
    for name, samples in categories.most_common():
        print(row(name, samples))
        inside = Counter({function: n for (of, function), n in places.items() if of == name})
        for function, n in inside.most_common(asked.top):
            print(row(f"    {function[:56]}", n))
    print(row("a step", total))
    print(f"{total} samples; left out: {dict(left_out) or 'none'}")


if __name__ == "__main__":
    main()
