"""From `module:app` to the app: imported as Python would, with an answer for each way to miss."""

from __future__ import annotations

import importlib
import sys
import traceback
from types import ModuleType

import click

from perdure.app import App
from perdure.core.errors import PerdureError

_FORM = "write MODULE:APP, such as shop:app for `app = App(...)` in shop.py"


def load_app(where: str) -> App:
    """Import an app from the current folder or from what is installed, or say what is missing."""
    name, colon, attribute = where.partition(":")
    if name.endswith(".py") or "/" in name:
        as_module = name.removesuffix(".py").strip("./").replace("/", ".")
        raise click.ClickException(f"'{name}' is a file; {_FORM}. Perhaps: {as_module}:app")
    module = _module(name)
    if not colon or not attribute:
        raise click.ClickException(f"'{where}' names no app; {_FORM}. {_apps_of(module)}")
    found = getattr(module, attribute, None)
    if found is None:
        raise click.ClickException(f"the module '{name}' has no '{attribute}'. {_apps_of(module)}")
    if not isinstance(found, App):
        kind = type(found).__name__
        raise click.ClickException(f"'{where}' is of type {kind}, not an App. {_apps_of(module)}")
    if not found.registry.all_names():
        raise click.ClickException(
            f"'{where}' has no workflows; name them: App(url, workflows=[purchase])"
        )
    return found


def _module(name: str) -> ModuleType:
    sys.path.insert(0, "")  # the current folder, as `python -m` has it
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise click.ClickException(
                f"there is no module '{missing}' in this folder or among what is installed; {_FORM}"
            ) from error
        raise click.ClickException(_failed(name, error)) from error
    except PerdureError:
        raise
    except Exception as error:
        raise click.ClickException(_failed(name, error)) from error


def _failed(name: str, error: Exception) -> str:
    """Say where a user's own module raised; the frames of the import say nothing."""
    ours = {__file__, importlib.__file__}
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in ours and not frame.filename.startswith("<")
    ]
    at = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"importing '{name}' raised {type(error).__name__}: {error}{at}"


def _apps_of(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    if not names:
        return f"There is no App in '{module.__name__}'"
    return "It has: " + ", ".join(f"{module.__name__}:{name}" for name in names)
