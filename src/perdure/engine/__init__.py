"""THE DOOR: the only way anything is written.

`Door` works off a group of asks in one transaction, in the thread that calls it. `Writer` is the
thread that does so for a whole process, with the queue in front of it.
"""

from perdure.engine.door import Door
from perdure.engine.surroundings import REAL, Surroundings
from perdure.engine.writer import Writer

__all__ = ["REAL", "Door", "Surroundings", "Writer"]
