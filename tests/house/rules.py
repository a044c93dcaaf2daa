"""The rules of the house. Each takes parsed modules and returns what breaks it, a line each.

The tables that the rules are given (floors, friends, limits) stand in tests/test_house.py.
"""

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from statistics import median

from tests.house.tree import (
    FUNCTIONS,
    Module,
    functions,
    imports,
    nodes,
    parents,
    room_of,
    spoken,
    strings,
)

DOORS = {"", "__main__"}  # perdure/__init__.py and perdure/__main__.py may import anything

# What is built from pieces here would otherwise find itself.
ASKING = re.compile(
    r"\bselect\b.+\bfrom\b|\binsert\s+into\b|\bupdate\b.+\bset\b|\bdelete\s+from\b"
    r"|\bcreate\s+(unique\s+)?(table|index|view)\b",
    re.IGNORECASE | re.DOTALL,
)
STEERING = re.compile(  # a whole string, so that a sentence may speak of a commit
    r"\s*(pragma\s.+|begin\s+immediate|commit|rollback|savepoint\s.+)[\s;]*",
    re.IGNORECASE | re.DOTALL,
)
WATCHES = (
    *("time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns"),
    *("time.perf_counter", "time.perf_counter_ns"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    *("datetime.date.today", "os.urandom", "random", "secrets", "uuid"),
)
MARKS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
PLACES = re.compile(
    r"(?<![\w.-])/(home|root|work|Users)/"
    r"|\bpy" + r"pi\.org|python" + r"hosted\.|\bnpm" + r"js\.(org|com)"
)


def between_rooms(
    modules: Sequence[Module],
    floors: Sequence[Collection[str]],
    friends: Mapping[tuple[str, str], str],
) -> list[str]:
    """Whoever has no floor, looks up, knows a neighbour, or goes in by the front door."""
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    known = frozenset(module.name for module in modules)
    shown = {name for module in modules if not module.room for name in _shown(module.tree)}
    broken = []
    for module in modules:
        if module.room in DOORS:
            continue
        if module.room not in floor:
            broken.append(module.at(1, f"the room `{module.room}` has no floor"))
            continue
        for it in imports(module, known):
            if it.target == "perdure" or (it.said == "perdure" and room_of(it.target) in shown):
                broken.append(module.at(it.line, "goes in by the front door; name the room"))
            elif it.target.startswith("perdure."):
                wrong = _wrong(module.room, room_of(it.target), floor, friends)
                broken += [module.at(it.line, wrong)] if wrong else []
    return broken


def _wrong(
    room: str, other: str, floor: Mapping[str, int], friends: Mapping[tuple[str, str], str]
) -> str | None:
    if other not in floor:
        return f"`{other}` has no floor"
    if floor[other] > floor[room]:
        return f"`{room}` (floor {floor[room]}) looks up at `{other}` (floor {floor[other]})"
    if floor[other] == floor[room] and other != room and (room, other) not in friends:
        return f"`{room}` knows its neighbour `{other}`"
    return None


def impure(modules: Sequence[Module], room: str, pure: Collection[str]) -> list[str]:
    """Imports of a room that are neither its own nor on the list."""
    known = frozenset(module.name for module in modules)
    return [
        module.at(it.line, f"`{room}` must stay pure and imports `{it.said}`")
        for module in modules
        if module.room == room
        for it in imports(module, known)
        if not f"{it.target}.".startswith(f"perdure.{room}.")
        if it.said not in pure and it.said.split(".")[0] not in pure
    ]


def too_long(modules: Sequence[Module], most: int, special: Mapping[str, int]) -> list[str]:
    """Files over their limit."""
    return [
        module.at(module.lines, f"{module.lines} lines, at most {limit}")
        for module in modules
        if module.lines > (limit := special.get(module.name, most))
    ]


def too_long_functions(modules: Sequence[Module], most: int) -> list[str]:
    """Functions over the limit; a docstring costs nothing."""
    return [
        module.at(node.lineno, f"`{node.name}` has {lines} lines, at most {most}")
        for module in modules
        for node in functions(module)
        if (lines := _span(node) - _docstring_span(node)) > most
    ]


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring_span(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return _span(node.body[0]) if ast.get_docstring(node) is not None else 0


def median_length(modules: Iterable[Module]) -> float:
    return median(module.lines for module in modules)


def cycle(modules: Sequence[Module]) -> list[str]:
    """One circle of modules that import each other, if there is any."""
    known = frozenset(module.name for module in modules)
    graph = {
        module.name: {
            it.target
            for it in imports(module, known)
            if it.target in known and not it.typing and not it.lazy
        }
        for module in modules
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" <- ".join(error.args[1])]
    return []


def unreachable(modules: Sequence[Module], doors: Iterable[str]) -> list[str]:
    """Modules that no import leads to from any door; a door is a name or a pattern."""
    by_name = {module.name: module for module in modules}
    known = frozenset(by_name)
    ahead = [name for name in known if any(fnmatch(name, door) for door in doors)]
    seen: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name in known and name not in seen:
            seen.add(name)
            ahead += parents(name)
            ahead += [it.target for it in imports(by_name[name], known)]
    return [by_name[name].at(1, "no import leads here") for name in sorted(known - seen)]


def statements(modules: Sequence[Module], stores: str) -> list[str]:
    """SQL in Python: nowhere what asks for rows, only below the stores what steers a connection."""
    broken = []
    for module in modules:
        for text, line in strings(module):
            if ASKING.search(text):
                broken.append(module.at(line, "SQL outside a .sql file"))
            elif module.room != stores and STEERING.fullmatch(text):
                broken.append(module.at(line, f"`{text.strip()}` outside `{stores}`"))
    return broken


def writing(
    modules: Sequence[Module], methods: Collection[str], rooms: Mapping[str, str]
) -> list[str]:
    """Uses of a store's writing method from another room; an object may use its own."""
    return [
        module.at(node.lineno, f"`.{node.attr}` belongs to the door")
        for module in modules
        if module.room not in rooms
        for node in nodes(module)
        if isinstance(node, ast.Attribute) and node.attr in methods
        if ast.unparse(node.value) not in {"self", "super()"}
    ]


def watches(modules: Sequence[Module], rooms: Mapping[str, str]) -> list[str]:
    """Clocks and dice in rooms that are given their time and chance as arguments."""
    found = {
        (module.path, line, name)
        for module in modules
        if module.room not in rooms
        for name, line in spoken(module)
        if any(name == watch or name.startswith(f"{watch}.") for watch in WATCHES)
    }
    return [f"{path}:{line}: `{name}` is an argument here" for path, line, name in sorted(found)]


def front_door(modules: Sequence[Module], most: int) -> list[str]:
    """Too many names, names that lead nowhere, functions and classes that promise nothing."""
    by_name = {module.name: module for module in modules}
    door = by_name["perdure"]
    shown = _shown(door.tree)
    broken = [] if shown else [door.at(1, "shows nothing: `__all__` is missing or empty")]
    if len(shown) > most:
        broken.append(door.at(1, f"shows {len(shown)} names, at most {most}"))
    for name in shown:
        node = _definition(by_name, "perdure", name)
        if node is None:
            broken.append(door.at(1, f"`{name}` is defined nowhere"))
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not ast.get_docstring(node):
            broken.append(door.at(1, f"`{name}` has no docstring"))
    return broken


def _shown(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in _bound(node):
            return list(ast.literal_eval(node.value)) if node.value else []
    return []


def _definition(by_name: Mapping[str, Module], where: str, name: str) -> ast.AST | None:
    """Where a shown name is defined, through any number of rooms that pass it on."""
    if f"{where}.{name}" in by_name and where != "perdure":
        return by_name[f"{where}.{name}"].tree
    tree = by_name[where].tree
    for node in reversed(tree.body):
        if name in _bound(node):
            return node
    homes = [it for it in ast.walk(tree) if isinstance(it, ast.ImportFrom)]
    for node in homes:
        for alias in node.names:
            if name == (alias.asname or alias.name) and node.module in by_name:
                return _definition(by_name, node.module, alias.name)
    for home in _lazy_homes(tree, name):
        if home in by_name:
            return _definition(by_name, home, name)
    return None


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _lazy_homes(tree: ast.Module, name: str) -> list[str]:
    """What a table such as `{"App": "perdure.app"}` says of a name."""
    return [
        value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == name
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]


def excuses(modules: Sequence[Module]) -> list[str]:
    """Errors swallowed, work not done, and marks that promise to do it one day."""
    broken = []
    for module in modules:
        for node in nodes(module):
            if isinstance(node, ast.ExceptHandler) and all(map(_idle, node.body)):
                broken.append(module.at(node.lineno, "an error is swallowed without a word"))
            if isinstance(node, ast.Name) and node.id == "NotImplementedError":
                broken.append(module.at(node.lineno, "not implemented"))
        for number, line in enumerate(module.source.splitlines(), 1):
            if mark := MARKS.search(line):
                broken.append(module.at(number, f"`{mark[0]}`: do it, or leave it out"))
    return broken


def _idle(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def naps(modules: Sequence[Module]) -> list[str]:
    """Sleeps of a fixed length; `asyncio.sleep(0)` only lets others run."""
    return [
        module.at(node.lineno, "wait for what you mean, not for a while")
        for module in modules
        for node in nodes(module)
        if isinstance(node, ast.Call)
        if ast.unparse(node.func).split(".")[-1] == "sleep"
        if any(_positive(it) for it in [*node.args[:1], *(it.value for it in node.keywords)])
    ]


def _positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 0


def wordless(modules: Sequence[Module]) -> list[str]:
    """Test functions that do not say in a sentence what they show."""
    return [
        module.at(node.lineno, f"`{node.name}` does not say what it shows")
        for module in modules
        for node in functions(module)
        if node.name.startswith("test") and not ast.get_docstring(node)
    ]


def places(texts: Mapping[str, str]) -> list[str]:
    """Lines that name a package host or a folder of somebody's machine."""
    return [
        f"{path}:{number}: `{found[0]}` names a place"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if (found := PLACES.search(line))
    ]
