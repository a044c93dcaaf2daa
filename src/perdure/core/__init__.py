"""THE LAW: pure values and functions that say what may happen to a run.

A command and the present run go into `decide`, events come out; events folded by `evolve`
give the next run. Nothing in this room looks at a clock, throws dice, opens a file or knows a
store: time and identity are arguments. It stands on the standard library and msgspec alone.
"""
