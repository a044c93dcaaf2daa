"""THE WORDS: every vocabulary perdure speaks, as data, one file a profile.

A file here holds words, a document's own table of transitions and its policies, so that one can
lay file and document side by side. No function, no branch and no import but of the law's nouns
may enter such a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perdure.core.errors import PerdureError
from perdure.profiles import approval, job, plugin, runner, standard, task

if TYPE_CHECKING:
    from perdure.core.profile import Profile

__all__ = ["UnknownProfile", "get", "names"]

_PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        standard.PROFILE,
        plugin.PROFILE,
        runner.PROFILE,
        task.PROFILE,
        approval.PROFILE,
        job.PROFILE,
        job.EXPLICIT_PROFILE,
    )
}


class UnknownProfile(PerdureError, LookupError):
    """No profile has this name; `known` holds the names there are.

    >>> print(UnknownProfile("nope"))
    there is no profile 'nope'; known: standard, plugin, runner, task, approval, job, job-explicit
    """

    def __init__(self, name: str) -> None:
        self.name, self.known = name, names()
        super().__init__(f"there is no profile '{name}'; known: {', '.join(self.known)}")


def names() -> tuple[str, ...]:
    """Return the name of every profile, the default first."""
    return tuple(_PROFILES)


def get(name: str) -> Profile:
    """Return the profile of this name.

    >>> get("task").initial
    'queued'
    >>> sorted(get("task").terminal)
    ['cancelled', 'failed', 'succeeded']
    """
    try:
        return _PROFILES[name]
    except KeyError:
        raise UnknownProfile(name) from None
