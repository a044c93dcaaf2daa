"""Named limits: everything that grows has one, and an error that names it."""

from __future__ import annotations

from typing import Final

# a run
OPEN_STEPS: Final = 1_000
SIGNAL_BACKLOG: Final = 1_000
EVENTS_OF_A_RUN: Final = 50_000
PAYLOAD_BYTES: Final = 1_048_576
NAME_CHARACTERS: Final = 200
RETRIES: Final = 1_000_000
LIVES_OF_A_WORKER: Final = 100_000
ERROR_CHARACTERS: Final = 4_000

# the door
GROUP_COMMANDS: Final = 256
QUEUE_COMMANDS: Final = 100_000
TAIL_ROWS: Final = 64
TAIL_BYTES: Final = 262_144  # as characters of JSON
PAGE_RUNS: Final = 200
CLAIM_RUNS: Final = 128

# time, in seconds
LEASE_S: Final = 10.0
BEAT_S: Final = 3.0
GRACE_S: Final = 10.0
POLL_SHORTEST_S: Final = 0.05
POLL_LONGEST_S: Final = 1.0
START_VISIBLE_AFTER_S: Final = 1.0
WAIT_IN_MEMORY_S: Final = 1.0
LOOP_STALL_S: Final = 300.0
