"""The package as data: every module parsed, every import resolved. Nothing read here is run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    name: str  # perdure.core.run; for a package the name without __init__
    path: str  # as a person finds it, below the repository
    source: str
    tree: ast.Module
    package: bool

    @property
    def room(self) -> str:
        """The first name below perdure; empty for the front door."""
        return room_of(self.name)

    @property
    def lines(self) -> int:
        return len(self.source.splitlines())

    def at(self, line: int, what: str) -> str:
        return f"{self.path}:{line}: {what}"


@dataclass(frozen=True)
class Import:
    line: int
    said: str  # the module named in the statement
    target: str  # the module that is meant: `from perdure.core import run` means perdure.core.run
    typing: bool  # stands under `if TYPE_CHECKING`
    lazy: bool  # a string for import_module


def parse(name: str, source: str, path: str = "", *, package: bool = False) -> Module:
    return Module(name, path or name, source, ast.parse(source, path or name), package)


def load(root: Path, below: Path) -> list[Module]:
    """Every Python file of a folder; names start at `below`, paths at `root`."""
    modules = []
    for file in sorted(below.rglob("*.py")):
        parts = file.relative_to(below.parent).with_suffix("").parts
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        path = file.relative_to(root).as_posix()
        modules.append(parse(name, file.read_text(encoding="utf-8"), path, package=package))
    return modules


def room_of(name: str) -> str:
    return [*name.split("."), ""][1]


def parents(name: str) -> Iterator[str]:
    """`perdure`, `perdure.core` for `perdure.core.run`: importing a module runs these too."""
    parts = name.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts)))


def imports(module: Module, known: frozenset[str]) -> list[Import]:
    """All imports of a module, at whatever depth, with strings for `import_module` among them."""
    return [
        Import(node.lineno, said, target, typing, lazy=False)
        for node, typing in _statements(module.tree)
        for said, target in _meant(module, node, known)
    ] + [
        Import(node.lineno, node.value, node.value, typing=False, lazy=True)
        for node in _lazy(module.tree)
        if node.value in known
    ]


def _statements(node: ast.AST, *, typing: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, typing
    guarded = node.body if isinstance(node, ast.If) and _is_typing(node.test) else []
    for child in ast.iter_child_nodes(node):
        yield from _statements(child, typing=typing or child in guarded)


def _is_typing(test: ast.expr) -> bool:
    return ast.unparse(test).split(".")[-1] == "TYPE_CHECKING"


def _meant(module: Module, node: ast.stmt, known: frozenset[str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        said = absolute(module, node)
        for alias in node.names:
            inner = f"{said}.{alias.name}"
            yield said, inner if inner in known else said


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The module a `from … import` names, dots of a relative one resolved."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + module.package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _lazy(tree: ast.Module) -> Iterator[ast.Constant]:
    """In a module that calls `import_module`, every string may be a module's name."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    if any(ast.unparse(f).split(".")[-1] in {"import_module", "__import__"} for f in calls):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node


def spoken(module: Module) -> Iterator[tuple[str, int]]:
    """Each outside name a module imports or reaches through an import: `time.monotonic`, line."""
    origin: dict[str, str] = {}
    for node, _ in _statements(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name if alias.asname else alias.name.split(".")[0]
                origin[alias.asname or top] = top
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{absolute(module, node)}.{alias.name}"
                origin[alias.asname or alias.name] = full
                yield full, node.lineno
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, *rest = ast.unparse(node).split(".")
            if first in origin:
                yield ".".join([origin[first], *rest]), node.lineno


def nodes(module: Module) -> list[ast.AST]:
    """Everything in a module, in the order of its lines."""
    return sorted(ast.walk(module.tree), key=lambda node: getattr(node, "lineno", 0))


def functions(module: Module) -> Iterator[Function]:
    return (node for node in nodes(module) if isinstance(node, FUNCTIONS))


def strings(module: Module) -> Iterator[tuple[str, int]]:
    """Each string that is a value: docstrings left out, the pieces of an f-string put together."""
    everything = nodes(module)
    seen = {node.value for node in everything if isinstance(node, ast.Expr)}
    for node in everything:
        if isinstance(node, ast.JoinedStr):
            seen.update(node.values)
            pieces = (p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
            yield "".join(map(str, pieces)), node.lineno
    for node in everything:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in seen:
            yield node.value, node.lineno
