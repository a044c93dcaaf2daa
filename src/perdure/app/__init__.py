"""The face of perdure in Python: an app, its runs, and answers for both colours of code."""

from perdure.app.answer import Answer, Answers
from perdure.app.app import App
from perdure.app.handle import RunHandle

__all__ = ["Answer", "Answers", "App", "RunHandle"]
