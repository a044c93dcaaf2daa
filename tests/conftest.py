"""What all tests share: how hard the random ones look, and that nothing is kept on disk."""

from __future__ import annotations

from hypothesis import settings

# A random test prints what broke it, which is the bug report. No example is kept in a file,
# because the tests pass in a folder that one may only read, too.
settings.register_profile("perdure", deadline=None, max_examples=60, database=None, print_blob=True)
settings.load_profile("perdure")
