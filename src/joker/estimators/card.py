"""What a fitted model is, for people who use it: a model card in Markdown, and tables of facts in a notebook."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib.metadata import version
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from joker import kernels
from joker.errors import InvalidParameter, JokerError
from joker.models import ExactMachine
from joker.runtime import VERSION, visible

PACKAGES = ("torch", "numpy", "scikit-learn")
MAX_LISTED = 50  # inputs or classes
CARD_DIGITS, NOTEBOOK_DIGITS = 6, 4  # of a number
Scores = Mapping[str, float] | None


class Code(str):
    """Markdown that shows a text as it is."""

    __slots__ = ()


def code(text: object) -> Code:
    """Return a name of the user as code: nothing in it is HTML, Markdown or a control character, backticks neither.

    >>> code("size"), code("a`b")
    ('`size`', '`` a`b ``')
    """
    line = visible(" ".join(str(text).split()))
    marks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return Code(f"{marks}{line}{marks}" if len(marks) == 1 else f"{marks} {line} {marks}")


def _markdown_cell(value: Any) -> str:
    text = " ".join(shown(value, CARD_DIGITS).splitlines())
    text = text if isinstance(value, Code) else re.sub(r"([`\[\]])", r"\\\1", escape(text, quote=False))
    return text.replace("|", "\\|")


@dataclass(frozen=True)
class TextTable:
    """A table that is written as Markdown or HTML; without a head, the first cell of a row is its name."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""  # a sentence under the table

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return a table with one row for each fact."""
        return cls((), list(facts.items()))

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Any]], note: str = "") -> Self:
        """Return a table with one row for each record, whose keys are the head."""
        names = list(dict.fromkeys(name for record in records for name in record))
        return cls(names, [[record.get(name) for name in names] for record in records], note)

    def markdown(self) -> str:
        """Return the table in Markdown; empty without rows."""
        if not self.rows:
            return ""
        head = self.head or [""] * len(self.rows[0])
        rows = [map(_markdown_cell, row) for row in (head, *self.rows)]
        lines = "".join(f"| {' | '.join(line)} |\n" for line in (rows[0], ["---"] * len(head), *rows[1:]))
        return f"{lines}\n{self.note}\n" if self.note else lines

    def html(self, caption: str) -> str:
        """Return the table in HTML; empty without rows."""
        if not self.rows:
            return ""
        first = "td" if self.head else "th"
        head = f"<thead>{_html_row(self.head, 'th', 'th')}</thead>" if self.head else ""
        body = "".join(_html_row(row, first, "td") for row in self.rows)
        return f"<table><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table>"


def shown(value: Any, digits: int = NOTEBOOK_DIGITS) -> str:
    """Return a value of a table as text."""
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else visible(str(value))


def _html_row(values: Sequence[Any], first: str, other: str) -> str:
    tags = [first, *[other] * (len(values) - 1)]
    cells = (f"<{tag}>{escape(shown(value))}</{tag}>" for tag, value in zip(tags, values, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


@dataclass(frozen=True)
class ModelReport:
    """What a fitted model says of itself."""

    data: Sequence[TextTable]  # what it was fitted on
    model: TextTable  # its kernel and result, or those of its ensemble members
    scores: Sequence[tuple[str, float]]  # on held-out rows
    device: str
    notebook: Mapping[str, TextTable]  # the tables that a notebook shows, by their captions
    introduction: str = ""  # a sentence before the table of the model


class NotebookView:
    """Adds tables to the HTML of a scikit-learn estimator; must precede ``BaseEstimator`` in the bases."""

    def _report(self) -> ModelReport:
        """Return what a fitted kernel estimator says of itself."""
        check_is_fitted(self, ("_machine", "history_"))
        facts = TextTable.of_facts(_facts(self))
        data = TextTable.of_facts(_data(self)), _inputs(self)
        notebook = {f"{type(self).__name__}, fitted": facts}
        return ModelReport(data, facts, _path_scores(self), device_of(self), notebook)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = super()._repr_html_  # type: ignore[misc]  # AttributeError if scikit-learn shows text
        return lambda: diagram() + self._summary_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    def _summary_html(self) -> str:
        """Empty before the fit, and where a parameter was set to an invalid value after the fit."""
        try:
            tables = self._report().notebook
        except (JokerError, NotFittedError):
            return ""
        return "".join(table.html(caption) for caption, table in tables.items())


def model_card(model: Any, scores: Scores = None) -> str:
    """Return the model card of a fitted model."""
    report: ModelReport = model._report()
    known = TextTable(("score", "value"), [*report.scores, *_checked(scores)])
    versions = {"joker": VERSION, **{name: version(name) for name in PACKAGES}, "Python": platform.python_version()}
    sections = {
        "Data": "\n".join(table.markdown() for table in report.data),
        "Model": report.introduction + report.model.markdown(),
        "Settings": _settings(model).markdown(),
        "Scores": known.markdown(),
        "Environment": TextTable.of_facts({**versions, "device": report.device}).markdown(),
    }
    title = f"# Model card: {type(model).__name__}"
    parts = [title, *(f"## {name}\n\n{text}" for name, text in sections.items() if text)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _settings(model: Any) -> TextTable:
    """The parameters of the constructor, those that differ from their defaults first."""
    given = [(field.name, getattr(model, field.name), field.default) for field in fields(model) if field.init]
    ranked = sorted(given, key=lambda one: type(one[1]) is type(one[2]) and bool(np.all(one[1] == one[2])))
    rows = [(code(name), code(repr(value)), code(repr(default))) for name, value, default in ranked]
    return TextTable(("setting", "value", "default"), rows)


def _checked(scores: Scores) -> list[tuple[str, float]]:
    """Return the scores that the user adds, after a check."""
    if scores is None:
        return []
    if not isinstance(scores, Mapping) or not all(isinstance(value, Real) for value in scores.values()):
        raise InvalidParameter(
            f"scores must be a dictionary from names to numbers; got {scores!r}. Use {{'accuracy on new rows': 0.9}}."
        )
    return [(str(name), float(value)) for name, value in scores.items()]


def device_of(model: Any) -> str:
    """Return the device of a fitted kernel estimator."""
    return str(model._machine.constant.device)


def _facts(model: Any) -> dict[str, str]:
    """Return the loss, the kernel, the size and the result of a fitted estimator, by name."""
    kernel = kernels.get(model.kernel)
    chosen = f" (best of {len(model.path_.lam)})" if hasattr(model, "path_") else ""
    return {
        "loss": _describe(model._loss()),
        "kernel": repr(kernel) if kernel.external else _describe(kernel, omit="bandwidth"),
        **({"bandwidth σ": _bandwidth(model.bandwidth_)} if kernel.has_bandwidth else {}),
        "λ": ", ".join(f"{lam:.4g}" for lam in np.atleast_1d(model.lam_)) + chosen,
        **_size(model),
        "epochs": f"{model.n_iter_}",
        "relative gap": f"{model.gap_:.2e}",
        "stopped": model.stop_reason_,
        "conclusion": model.conclusion_,
        "seconds": f"{model.history_[-1]['seconds']:.2g}",
    }


def _bandwidth(bandwidth: Any) -> str:
    if not np.ndim(bandwidth):
        return f"{bandwidth:.4g}"
    return f"{np.min(bandwidth):.4g} to {np.max(bandwidth):.4g}, one for each input"


def _size(model: Any) -> dict[str, str]:
    machine = model._machine
    if isinstance(machine, ExactMachine):
        return {"rows": f"{len(machine.x):,}"}
    return {"features": f"{len(machine.theta) - model._constant:,}"}


def _describe(part: Any, omit: str = "") -> str:
    """A loss or a kernel with its parameters, without the one named ``omit`` and options with their default value."""
    if not is_dataclass(part):
        return repr(part)
    parameters = ((field, getattr(part, field.name)) for field in fields(part) if field.name != omit)
    values = {field.name: value for field, value in parameters if not (field.kw_only and value == field.default)}
    texts = [f"{name}={value.tolist() if isinstance(value, Tensor) else value}" for name, value in values.items()]
    return f"{type(part).__name__}({', '.join(texts)})" if texts else type(part).__name__


def listed(names: Sequence[Any]) -> str:
    """Return names as one text; of many only the first ones."""
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return Code(", ".join(code(name) for name in names[:MAX_LISTED]) + more)


def training_rows(*models: Any) -> str:
    """Return the number of training rows in kernel estimators, which readers may have to keep confidential."""
    machines = (model._machine for model in models)
    with_rows = (one for one in machines if isinstance(one, ExactMachine) and not one.precomputed)
    rows = max((len(machine.x) for machine in with_rows), default=0)
    return f"{rows:,}, which the model contains" if rows else "the model contains none"


def _data(model: Any) -> dict[str, Any]:
    schema = getattr(model, "schema_", None)
    classes = getattr(model, "classes_", None)
    return {
        "inputs": model.n_features_in_,
        "inputs are standardized": "yes" if hasattr(model, "mean_") else "no",
        **({"target": code(schema.target)} if schema is not None and schema.target else {}),
        **({"classes": listed(classes.tolist())} if classes is not None else {"outputs": len(model._offset)}),
        "training rows": training_rows(model),
    }


def _inputs(model: Any) -> TextTable:
    """The inputs with names, means and deviations, as far as they are known."""
    schema = getattr(model, "schema_", None)
    names = schema.names if schema is not None else getattr(model, "feature_names_in_", None)
    scaled = hasattr(model, "mean_")
    if names is None and not scaled:
        return TextTable((), ())
    values = {"mean": model.mean_, "deviation": model.scale_} if scaled else {}
    values |= {"bandwidth": model.bandwidth_} if np.ndim(model.bandwidth_) else {}
    records = [
        {"input": j if names is None else code(names[j]), **{name: float(v[j]) for name, v in values.items()}}
        for j in range(min(model.n_features_in_, MAX_LISTED))
    ]
    left = model.n_features_in_ - len(records)
    return TextTable.of_records(records, f"{left:,} more inputs are not listed." if left else "")


def _path_scores(model: Any) -> list[tuple[str, float]]:
    if not hasattr(model, "path_"):
        return []
    name = model.early_stopping if isinstance(model.early_stopping, str) else "minus the mean loss"
    scores = zip(model.path_.lam.tolist(), model.path_.scores.tolist(), strict=True)
    return [(f"{name} on held-out rows, λ = {lam:.4g}", score) for lam, score in scores]
