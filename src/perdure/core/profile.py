"""What a profile is: one document's words, its own table of transitions, its policies.

A profile is data. The same machine speaks every vocabulary; the document's table is the guard.
The profiles themselves live in `perdure.profiles`, one file each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from perdure.core.states import QUEUED, State


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands do where documents differ.

    `cancel` and `waiting` are choices, the default first; the other tuples are sets.
    """

    # Cancelling a running run: ask its holder and wait for the answer, or end it at once.
    cancel: tuple[Literal["request", "direct"], ...]
    # The holder of a running run is gone.
    owner_lost: Literal["interrupt", "release", "fail"]
    # More losses than the limit: set the run aside, end it, or the question cannot arise.
    losses_exhausted: Literal["hold", "fail", "none"]
    # The deadline has passed: over, or over only when no retry is left.
    deadline: Literal["timed_out", "retry"]
    # What may be tried again: single steps, the whole run.
    retry: tuple[Literal["step", "run"], ...]
    # The time of a retry: any function, the document's exact formula, or no retries at all.
    backoff: Literal["free", "exact", "none"]
    # Whether a run may wait: shown, hidden behind another word, for approvals only, never.
    waits: Literal["shown", "hidden", "approvals", "none"]
    # What a waiting run shows: the word of WAITING (run), or that of RUNNING (step).
    waiting: tuple[Literal["run", "step"], ...] = ("run",)
    # A claim leads to LEASED and a start of its own follows.
    leases_first: bool = False
    # Whether a start needs an idempotency key, and within what the key is unique.
    key: Literal["optional", "required", "none"]
    key_scope: tuple[Literal["tenant", "workflow", "plugin", "entry", "api_key"], ...]
    # A known key with another input.
    key_conflict: Literal["refuse", "attach", "none"]
    # A command that would write the status the run has already.
    same_status: Literal["error", "noop", "refuse"]
    # The words in which its events are shown.
    event_words: Literal["canonical", "runs", "callback", "status_changed", "job", "none"]
    # Where a reader's status comes from: the projection, only ever it, or the fold on demand.
    read: tuple[Literal["projection", "derive"], ...] = ("projection",)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One document: its words, its table in its own words, its policies.

    A state without a word does not exist in the profile. A word with an empty row is terminal.
    """

    name: str
    words: Mapping[State, str]
    transitions: Mapping[str, frozenset[str]]
    policies: Policies

    @property
    def initial(self) -> str:
        """The word of a run that was just created."""
        return self.words[QUEUED]

    @property
    def terminal(self) -> frozenset[str]:
        """The words from which no transition leads anywhere."""
        return frozenset(word for word, targets in self.transitions.items() if not targets)

    def ends_in(self, state: State) -> bool:
        """Say whether a run that comes into this state has ended, by the document's table."""
        return not self.transitions.get(self.words.get(state, ""), True)

    def allows(self, before: State, after: State) -> bool:
        """Say whether a run may go from one state to the other without breaking the document.

        It may when both states have a word, and either the word stays the same or the
        document's own table has that row.
        """
        words = self.words
        was, becomes = words.get(before), words.get(after)
        if was is None or becomes is None:
            return False
        return was == becomes or becomes in self.transitions[was]
