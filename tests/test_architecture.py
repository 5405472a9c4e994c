"""The architecture as a test: which part may import which, and which part owns which tool.

The source is parsed, not imported, except to count the modules that one call enters. A rule takes the modules of a
tree and yields one sentence for each violation. The second half of this file breaks every rule on purpose, on a small
example tree.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

import numpy as np
import pytest

import joker

SRC = Path(__file__).resolve().parents[1] / "src"

# Top to bottom. A part is a package or a module right under joker; "joker" is the package's own
# __init__. An import points to a lower layer or stays within its part.
LAYERS = (
    {"joker", "__main__"},
    {"cli"},
    {"export", "ray"},
    {"tables"},
    {"tuning"},
    {"estimators"},
    {"callbacks", "warmup"},
    {"prepare"},
    {"planning"},
    {"models", "solvers"},
    {"losses", "kernels", "features", "data"},
    {"ops", "distributed"},
    {"runtime"},
    {"errors", "interrupts"},
)
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}
WITHIN_A_LAYER = {("features", "kernels")}  # random features are those of a kernel
# Imports that the layers would allow and the design does not.
STRANGERS = {
    **{("solvers", part): "solvers get kernels and features as callables" for part in ("kernels", "features")},
    **{
        (part, "ops"): "only kernels, features and solvers use ops"
        for part in DEPTH
        if part not in {"kernels", "features", "solvers", "ops"}
    },
}
OWNERS: dict[str, str | tuple[str, ...]] = {
    "torch.cuda": "runtime",
    "torch.distributed": "distributed",
    "builtins.print": "cli",
    "sys.stdout": "cli",
    "sys.stderr": "cli",
    "typer": "cli",
    "rich": ("cli", "callbacks.progress"),
    "safetensors": "models",
    "onnx": "export",
}
# Built-in errors that Python's own protocols ask for; everything else has a name in joker.errors.
RAISED_BUILTINS = {"AttributeError", "IndexError", "KeyError", "NotImplementedError", "StopIteration", "TypeError"}
RAISED_BY_CLI = ("builtins.SystemExit", "typer.")
# Private names of scikit-learn that its documentation for developers declares public.
DOCUMENTED_PRIVATE_NAMES = {"_init_callback_context"}
METHOD_NAMES = {"random_blocks", "greedy_blocks", "column_blocks", "conjugate_gradients"}
# What a newcomer has to open: modules and lines in all, and modules in which one call runs a function.
MOST_MODULES, MOST_LINES = 172, 41_500
MOST_ENTERED = {"KernelSVC.fit": 39, "JokerClassifier.fit": 72, "joker fit": 87}
ATTRIBUTE_FUNCTIONS = {"getattr", "hasattr", "setattr", "delattr"}
# Optional or for development only: `import joker` must work, and stay quick, without them.
NEVER_IMPORTED = (
    "clarabel",
    "cvxpy",
    "h5py",
    "matplotlib",
    "onnx",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "rich",
    "safetensors",
    "typer",
)


def is_private(name: str) -> bool:
    """Whether a name has exactly one leading underscore, or is the ``__dict__`` of an object."""
    return name == "__dict__" or (name.startswith("_") and not name.startswith("__") and name != "_")


def is_own_attribute(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether a node is an attribute of ``self``, ``cls`` or ``super()``."""
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(owner, ast.Name) and owner.id in {"self", "cls", "super"}


@dataclass(frozen=True)
class Module:
    """One source file, and what the names in it stand for."""

    name: str  # joker.losses.squared; a package goes by its own name
    is_package: bool
    text: str

    @property
    def part(self) -> str:
        return self.name.split(".")[1] if "." in self.name else "joker"

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def imports(self) -> list[tuple[str, str, int]]:
        """Each import as (local name, dotted name it stands for, line), wherever it is written."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    # `import a.b` binds a, yet uses a.b: both are recorded.
                    found.append((alias.asname or alias.name, alias.name, node.lineno))
                    if alias.asname is None:
                        top = alias.name.partition(".")[0]
                        found.append((top, top, node.lineno))
            elif isinstance(node, ast.ImportFrom):
                found += [(a.asname or a.name, f"{self._origin(node)}.{a.name}", node.lineno) for a in node.names]
        return found

    @cached_property
    def meaning(self) -> dict[str, str]:
        return {local: target for local, target, _ in self.imports}

    @cached_property
    def attributes(self) -> set[str]:
        """The names that the classes of the module define: in their bodies, or by assignment to ``self`` or ``cls``."""
        bodies = [part for node in self.nodes if isinstance(node, ast.ClassDef) for part in node.body]
        names = {part.name for part in bodies if isinstance(part, ast.FunctionDef)}
        fields = [node for part in bodies if isinstance(part, ast.Assign | ast.AnnAssign) for node in ast.walk(part)]
        names |= {node.id for node in fields if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        return names | {node.attr for node in self.nodes if is_own_attribute(node) and isinstance(node.ctx, ast.Store)}

    @property
    def private_uses(self) -> Iterator[tuple[str, int]]:
        """Private attributes of objects other than ``self``, ``cls``, ``super()`` and the imports from its own part."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own_attribute(node):
                first = ast.unparse(node.value).partition(".")[0]
                if part_of(self.meaning.get(first, "")) != self.part:
                    yield node.attr, node.lineno
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ATTRIBUTE_FUNCTIONS:
                names = (argument.value for argument in node.args[1:2] if isinstance(argument, ast.Constant))
                yield from ((name, node.lineno) for name in names if isinstance(name, str) and is_private(name))

    def _origin(self, node: ast.ImportFrom) -> str:
        """The absolute name of the module in ``from ... import``."""
        if node.level == 0:
            return node.module or ""
        here = self.name.split(".")
        parents = here[: len(here) - node.level + self.is_package]
        return ".".join(parents + ([node.module] if node.module else []))

    def dotted(self, node: ast.expr) -> str | None:
        """What a name or a chain of attributes stands for; None where it starts from a value."""
        if isinstance(node, ast.Attribute):
            value = self.dotted(node.value)
            return value and f"{value}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        own = "builtins" if hasattr(builtins, node.id) else self.name
        return self.meaning.get(node.id, f"{own}.{node.id}")

    @property
    def uses(self) -> Iterator[tuple[str, int]]:
        """Every dotted name that is imported or mentioned, with its line."""
        yield from ((target, line) for _, target, line in self.imports)
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute) and (name := self.dotted(node)):
                yield name, node.lineno


def read_tree(src: Path) -> list[Module]:
    """Parse every module of ``src/joker``."""
    modules = []
    for path in sorted((src / "joker").rglob("*.py")):
        is_package = path.name == "__init__.py"
        place = path.parent if is_package else path.with_suffix("")
        name = ".".join(place.relative_to(src).parts)
        modules.append(Module(name, is_package, path.read_text(encoding="utf-8")))
    assert modules, f"no Python files were found under {src / 'joker'}, so nothing can be checked"
    return modules


def part_of(target: str) -> str | None:
    """The part of joker that a dotted name belongs to; None for a name from elsewhere."""
    top, _, rest = target.partition(".")
    if top != "joker" or not rest:  # bare `import joker` tells nothing: what is taken from it does
        return None
    first = rest.partition(".")[0]
    return first if first in DEPTH else "joker"


def every_part_has_a_layer(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if module.part not in DEPTH:
            yield f"{module.name} has no place in the architecture. Add {module.part!r} to LAYERS, or move the module."


def imports_point_down(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        seen = {module.part}
        for target, line in module.uses:
            there = part_of(target)
            if there is None or there in seen or module.part not in DEPTH:
                continue
            seen.add(there)
            where = f"{module.name}, line {line}, uses {target}"
            if DEPTH[there] <= DEPTH[module.part] and (module.part, there) not in WITHIN_A_LAYER:
                yield f"{where}: {module.part} may only import from layers below it, and {there} is not below."
            elif (module.part, there) in STRANGERS:
                yield f"{where}: {STRANGERS[module.part, there]}."


def each_tool_has_one_owner(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        for tool, owner in OWNERS.items():
            owners = (owner,) if isinstance(owner, str) else owner
            lines = {line for name, line in module.uses if f"{name}.".startswith(f"{tool}.")}
            if lines and not {module.part, module.name.removeprefix("joker.")} & set(owners):
                tool_name, allowed = tool.removeprefix("builtins."), " and ".join(f"joker.{name}" for name in owners)
                yield f"{module.name}, line {min(lines)}, uses {tool_name}: only {allowed} may."


def raised_errors_are_ours(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        caught = {node.name for node in module.nodes if isinstance(node, ast.ExceptHandler)}
        for node in module.nodes:
            if not isinstance(node, ast.Raise) or node.exc is None:
                continue
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = module.dotted(error) or ast.unparse(error)
            # An error that was caught, or its cause: the error of another process.
            origin = error.value if isinstance(error, ast.Attribute) and error.attr == "cause" else error
            again = isinstance(origin, ast.Name) and origin.id in caught
            if not (again or may_raise(module, name)):
                yield (
                    f"{module.name}, line {node.lineno}, raises {name.removeprefix('builtins.')}: raise an error of "
                    f"joker.errors, or one of {', '.join(sorted(RAISED_BUILTINS))}."
                )


def may_raise(module: Module, name: str) -> bool:
    """Whether a module may raise the error of this dotted name."""
    in_cli = module.part == "cli" and name.startswith(RAISED_BY_CLI)
    return in_cli or name.startswith("joker.errors.") or name in {f"builtins.{known}" for known in RAISED_BUILTINS}


def private_names_stay_in_their_package(modules: list[Module]) -> Iterator[str]:
    """A name with one leading underscore is used only in the part of joker that defines it."""
    attributes: dict[str, set[str]] = {}
    for module in modules:
        attributes.setdefault(module.part, set()).update(module.attributes)
    for module in modules:
        imported = [(target, line) for _, target, line in module.imports if is_private(target.rpartition(".")[2])]
        foreign = [(target, line) for target, line in imported if part_of(target) not in (None, module.part)]
        own = attributes[module.part] | DOCUMENTED_PRIVATE_NAMES
        for name, line in [*foreign, *((name, line) for name, line in module.private_uses if name not in own)]:
            yield f"{module.name}, line {line}, uses {name}, which is private to its owner. Use a public name."


def no_cycles_inside_a_package(modules: list[Module]) -> Iterator[str]:
    """Imports among the modules of one part form no cycle; those for type checkers and inside functions count too."""
    names = {module.name for module in modules}
    edges = {module.name: imported_modules(module, names) for module in modules}
    seen: set[str] = set()
    for module in modules:
        if module.name in seen:
            continue
        cycle = {other for other in reachable(module.name, edges) if module.name in reachable(other, edges)}
        seen |= cycle
        if cycle:
            what = "import one another in a cycle" if len(cycle) > 1 else "imports itself"
            yield f"{', '.join(sorted(cycle))} {what}. Move what is shared to a module that imports none of them."


def imported_modules(module: Module, names: set[str]) -> set[str]:
    """The modules of the same part that a module imports. A package stands for what its ``__init__`` defines."""
    found = set()
    for _, target, _ in module.imports:
        prefixes = [target.rsplit(".", cut)[0] for cut in range(target.count(".") + 1)]
        nearest = next((prefix for prefix in prefixes if prefix in names), None)
        if nearest is not None and part_of(nearest) == module.part:
            found.add(nearest)
    return found


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """The modules that ``start`` imports, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in edges[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def class_names_are_unique(modules: list[Module]) -> Iterator[str]:
    """A reader who searches for a class finds one."""
    owners: dict[str, list[str]] = {}
    for module in modules:
        for node in ast.parse(module.text).body:
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, []).append(module.name)
    for name, places in owners.items():
        if len(places) > 1:
            yield f"the class {name} stands in {' and in '.join(places)}. Give each a name of its own."


def methods_are_asked_not_named(modules: list[Module]) -> Iterator[str]:
    """Only the package of the methods compares their names: what depends on a method is an attribute of it."""
    for module in modules:
        if f"{module.name}.".startswith("joker.solvers.methods."):
            continue
        compared = [node for node in module.nodes if isinstance(node, ast.Compare)]
        for node in compared:
            operands = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            named = any(isinstance(part, ast.Constant) and part.value in METHOD_NAMES for part in operands)
            imported = any(
                (module.dotted(part) or "").startswith("joker.solvers.methods.")
                for part in operands
                if isinstance(part, ast.Name | ast.Attribute)
            )
            if named or imported:
                yield (
                    f"{module.name}, line {node.lineno}, compares the name of a method. Give the class Method an "
                    "attribute that says what is needed."
                )


Rule = Callable[[list[Module]], Iterator[str]]
RULES: tuple[Rule, ...] = (
    every_part_has_a_layer,
    imports_point_down,
    each_tool_has_one_owner,
    raised_errors_are_ours,
    private_names_stay_in_their_package,
    no_cycles_inside_a_package,
    class_names_are_unique,
    methods_are_asked_not_named,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Rule) -> None:
    problems = list(rule(read_tree(SRC)))
    assert not problems, "\n".join(problems)


IMPORT_PROBE = """
import json, sys
from importlib import import_module
from importlib.metadata import packages_distributions
from importlib.util import find_spec

hidden, asked = set(sys.argv[2:]), set()

class Absent:  # the optional packages cannot be found, even where torch or scikit-learn would load them
    @staticmethod
    def find_spec(name, path=None, target=None):
        if (top := name.partition(".")[0]) in hidden:
            asked.add(top)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def loaded():
    return {name.partition(".")[0] for name in sys.modules}

def added_by(module):
    before = loaded()
    asked.clear()
    if find_spec(module):
        import_module(module)
    return asked | (third_party & (loaded() - before))

sys.meta_path.insert(0, Absent)
sys.path.insert(0, sys.argv[1])
third_party = set(packages_distributions()) - sys.stdlib_module_names - {"joker", "numpy", "torch"}
import numpy, torch
new = added_by("joker")
import sklearn.base, sklearn.metrics, sklearn.model_selection, sklearn.utils.metaestimators, sklearn.utils.validation
new |= added_by("joker.estimators") | added_by("joker.tuning") | added_by("joker.tables")
print(json.dumps({"from": sorted(set(sys.modules["joker"].__path__)), "new": sorted(new)}))
"""


def imported_by(src: Path) -> list[str]:
    """What joker imports beyond torch and NumPy, and its estimators beyond scikit-learn; or would, were it there."""
    command = [sys.executable, "-c", IMPORT_PROBE, str(src), *NEVER_IMPORTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"`import joker` failed:\n{done.stderr}"
    report = json.loads(done.stdout)
    assert report["from"] == [str(src / "joker")], f"another joker was imported, from {report['from']}"
    new: list[str] = report["new"]
    return new


def test_import_joker_needs_three_packages_only() -> None:
    new = imported_by(SRC)
    assert not new, f"`import joker` also imports {', '.join(new)}; import them where they are used."


def entered_by(action: Callable[[], object], package: str = "joker") -> set[str]:
    """The modules of a package in which a function runs during an action; imports do not count."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and frame.f_code.co_name != "<module>" and f"{name}.".startswith(f"{package}."):
            entered.add(name)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return entered


def rows_of_a_table(tmp_path: Path) -> tuple[Any, Any, Path]:
    """A small problem of two classes: inputs, labels, and a CSV file with both."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "yes", "no")
    path = tmp_path / "t.csv"
    lines = ["a,b,c,label", *(",".join([*map(str, row), label]) for row, label in zip(X, y, strict=True))]
    path.write_text("\n".join(lines), encoding="utf-8")
    return X, y, path


def command(*words: object) -> None:
    """Run a command of the program."""
    from joker.cli import main

    with contextlib.suppress(SystemExit):
        main([str(word) for word in words])


@pytest.mark.parametrize("call", MOST_ENTERED)
def test_one_call_enters_few_modules(call: str, tmp_path: Path) -> None:
    X, y, path = rows_of_a_table(tmp_path)
    out = tmp_path / "m.joker"
    actions: dict[str, Callable[[], object]] = {
        "KernelSVC.fit": lambda: joker.KernelSVC().fit(X, y),
        "JokerClassifier.fit": lambda: joker.JokerClassifier(effort=1, random_state=0).fit(X, y),
        "joker fit": lambda: command("fit", path, "--target", "label", "--out", out, "--effort", 1),
    }
    for module in read_tree(SRC):  # a module that is imported within the action would add its class bodies
        if not module.name.startswith(("joker.ops.triton.", "joker.ray", "joker.__main__")):
            importlib.import_module(module.name)
    entered = entered_by(actions[call])
    assert call != "joker fit" or out.is_file()
    assert len(entered) > 10, "the hook sees nothing"
    assert len(entered) <= MOST_ENTERED[call], "\n".join(sorted(entered))


def test_the_package_stays_small() -> None:
    modules = read_tree(SRC)
    assert len(modules) <= MOST_MODULES
    assert sum(module.text.count("\n") for module in modules) <= MOST_LINES


def test_entered_modules_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that runs counts, also in another thread and in a class; an import or an unused module does not."""
    files = {
        "__init__.py": "",
        "top.py": "from threading import Thread\nfrom chain import low, idle, threaded\n"
        "def run():\n    low.Low()\n    t = Thread(target=threaded.work); t.start(); t.join()\n",
        "low.py": "class Low:\n    def __init__(self): self.x = 1\n",
        "threaded.py": "def work(): return 2\n",
        "idle.py": "def unused(): ...\n",
    }
    for name, text in files.items():
        (tmp_path / "chain").mkdir(exist_ok=True)
        (tmp_path / "chain" / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    top = importlib.import_module("chain.top")
    assert entered_by(top.run, "chain") == {"chain.top", "chain.low", "chain.threaded"}


# The rules themselves, on trees that keep and that break them.


def fake_tree(src: Path, files: dict[str, str]) -> Path:
    """Write a package joker with these files below ``src``."""
    for name, text in {"__init__.py": "", **files}.items():
        path = src / "joker" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return src


SOUND = {
    "__init__.py": "from joker.estimators import KernelRidge\nimport joker.losses\n",
    "errors.py": "class JokerError(Exception): ...\n",
    "runtime.py": "import torch\nfrom joker import errors\ntorch.cuda.is_available()\n",
    "distributed.py": "import torch.distributed as dist\ndist.get_rank()\n",
    "ops/triton.py": "from ..errors import JokerError\n",
    "losses/__init__.py": "from .squared import Squared\n",
    "losses/squared.py": "import torch\nfrom joker.errors import JokerError as E\ntorch.cos\nraise E('x')\n",
    "kernels/gaussian.py": "from joker.ops.triton import f\nfrom joker.runtime import tiles\n",
    "solvers/descent.py": "from joker.losses import Squared\nfrom joker.data import blocks\nimport joker.ops.triton\n",
    "callbacks/progress.py": "from joker.prepare import Training\ndef f():\n    import rich\n",
    "estimators/fit.py": "from joker.callbacks import Callback\n",
    "estimators/ridge.py": "from joker import errors, kernels\nraise errors.JokerError.among('x')\n",
    "cli/main.py": "import sys, typer\nfrom joker import estimators\nprint(1, file=sys.stderr)\nraise SystemExit\n",
    "tuning/a.py": "from joker.tuning import b\nb._f()\nb.C()._x\ndef f(other):\n    other._x = other._y()\n",
    "tuning/b.py": "def _f(): ...\nclass C:\n    _x = 1\n    def _y(self): self._z = super()._w\n",
    "data/rows.py": "try: ...\nexcept OSError as error:\n    raise error\nraise TypeError('x')\n",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_tree_passes(rule: Rule, tmp_path: Path) -> None:
    assert list(rule(read_tree(fake_tree(tmp_path, SOUND)))) == []


VIOLATIONS = [
    (every_part_has_a_layer, "helpers.py", "", "joker.helpers has no place"),
    (every_part_has_a_layer, "extra/deep/er.py", "", "Add 'extra' to LAYERS"),
    (imports_point_down, "errors.py", "import joker.runtime", "errors may only import"),
    (imports_point_down, "runtime.py", "from joker import distributed", "uses joker.distributed"),
    (imports_point_down, "ops/triton.py", "from joker.kernels import k", "ops may only import"),
    (imports_point_down, "losses/a.py", "from ..kernels import k", "uses joker.kernels.k"),
    (imports_point_down, "losses/__init__.py", "from ..data import k", "uses joker.data.k"),
    (imports_point_down, "losses/a.py", "def f():\n    import joker.features.x as x", "line 2"),
    (imports_point_down, "losses/a.py", "from joker.ops import x", "only kernels, features and solvers use ops"),
    (imports_point_down, "kernels/a.py", "from joker.features import x", "kernels may only import"),
    (imports_point_down, "features/a.py", "from joker.data import x", "features may only import"),
    (imports_point_down, "data/a.py", "from joker.losses import x", "data may only import"),
    (imports_point_down, "solvers/a.py", "from joker.kernels import x", "as callables"),
    (imports_point_down, "solvers/a.py", "from joker import features", "as callables"),
    (imports_point_down, "solvers/a.py", "from joker.models import x", "solvers may only import"),
    (imports_point_down, "models/a.py", "from joker.estimators import x", "models may only import"),
    (imports_point_down, "estimators/a.py", "from joker.cli import x", "estimators may only import"),
    (imports_point_down, "models/a.py", "from joker import __version__", "joker is not below"),
    (imports_point_down, "models/a.py", "import joker\njoker.estimators.x", "line 2, uses joker.estimators"),
    (each_tool_has_one_owner, "losses/a.py", "import torch as t\nt.cuda.synchronize()", "line 2, uses torch.cuda"),
    (each_tool_has_one_owner, "ops/a.py", "from torch import cuda", "only joker.runtime may"),
    (each_tool_has_one_owner, "ops/a.py", "from torch.cuda import Stream", "only joker.runtime may"),
    (each_tool_has_one_owner, "runtime.py", "import torch.distributed", "only joker.distributed may"),
    (
        each_tool_has_one_owner,
        "solvers/a.py",
        "import torch\ntorch.distributed.barrier()",
        "only joker.distributed may",
    ),
    (each_tool_has_one_owner, "solvers/a.py", "print('x')", "uses print: only joker.cli may"),
    (each_tool_has_one_owner, "solvers/a.py", "import sys\nsys.stdout.write('x')", "uses sys.stdout"),
    (each_tool_has_one_owner, "models/a.py", "import typer", "uses typer"),
    (each_tool_has_one_owner, "estimators/a.py", "from safetensors.torch import load_file", "only joker.models may"),
    (each_tool_has_one_owner, "models/a.py", "from rich.table import Table", "uses rich"),
    (each_tool_has_one_owner, "callbacks/a.py", "import rich", "only joker.cli and joker.callbacks.progress may"),
    (imports_point_down, "callbacks/a.py", "from joker.estimators import x", "callbacks may only import"),
    (raised_errors_are_ours, "losses/a.py", "raise ValueError('x')", "raises ValueError"),
    (raised_errors_are_ours, "losses/a.py", "raise AssertionError", "raises AssertionError"),
    (raised_errors_are_ours, "losses/a.py", "class Odd(Exception): ...\nraise Odd", "raises joker.losses.a.Odd"),
    (raised_errors_are_ours, "losses/a.py", "raise SystemExit(1)", "raises SystemExit"),
    (
        private_names_stay_in_their_package,
        "cli/a.py",
        "def f(model):\n    return model._machine",
        "line 2, uses _machine",
    ),
    (private_names_stay_in_their_package, "cli/a.py", "model.__dict__['_results'] = f", "line 1, uses __dict__"),
    (private_names_stay_in_their_package, "cli/a.py", "getattr(model, '_levels', None)", "line 1, uses _levels"),
    (private_names_stay_in_their_package, "cli/a.py", "def _f(): ...\nmodel._f()", "line 2, uses _f"),
    (private_names_stay_in_their_package, "cli/a.py", "from joker.data import _rows", "uses joker.data._rows"),
    (no_cycles_inside_a_package, "losses/__init__.py", "from joker.losses import x", "joker.losses imports itself"),
    (
        class_names_are_unique,
        "losses/a.py",
        "class Rows: ...\nclass Rows: ...",
        "the class Rows stands in joker.losses.a",
    ),
    (methods_are_asked_not_named, "prepare.py", "settings.method == 'greedy_blocks'", "line 1, compares the name"),
    (methods_are_asked_not_named, "planning/a.py", "method in ('auto', 'random_blocks')", "compares the name"),
    (
        methods_are_asked_not_named,
        "tables/a.py",
        "from joker.solvers.methods.random_blocks import RANDOM\nmodel.method != RANDOM",
        "line 2, compares the name",
    ),
]


@pytest.mark.parametrize(("rule", "path", "text", "sentence"), VIOLATIONS)
def test_a_violation_is_caught(rule: Rule, path: str, text: str, sentence: str, tmp_path: Path) -> None:
    problems = list(rule(read_tree(fake_tree(tmp_path, {path: text}))))
    assert len(problems) == 1
    assert sentence in problems[0]


def test_a_cycle_through_several_modules_is_caught(tmp_path: Path) -> None:
    """Through an import for type checkers, one inside a function, and one of a package that imports its modules."""
    files = {
        "losses/__init__.py": "from joker.losses.a import f",
        "losses/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from joker.losses.b import B",
        "losses/b.py": "def f():\n    from .c import x",
        "losses/c.py": "from joker.losses import f\nfrom joker.losses.d import x",
        "losses/d.py": "from joker.kernels import a",
        "kernels/a.py": "",
    }
    problems = list(no_cycles_inside_a_package(read_tree(fake_tree(tmp_path, files))))
    assert len(problems) == 1
    assert problems[0].startswith("joker.losses, joker.losses.a, joker.losses.b, joker.losses.c import one another")


def test_every_rule_is_broken_once() -> None:
    assert {rule for rule, *_ in VIOLATIONS} == set(RULES)


def test_the_real_modules_are_read() -> None:
    assert {"joker.errors", "joker.runtime"} <= {module.name for module in read_tree(SRC)}


def test_a_tree_without_modules_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no Python files were found"):
        read_tree(tmp_path)


def test_greedy_imports_are_caught(tmp_path: Path) -> None:
    """Also one that may fail: it would cost its time wherever the package is installed."""
    tolerant = "import sklearn\ntry: import pandas\nexcept ImportError: ..."
    files = {"__init__.py": "import hypothesis, sklearn.base", "estimators/__init__.py": tolerant}
    new = imported_by(fake_tree(tmp_path, files))
    assert {"hypothesis", "pandas", "sklearn"} <= set(new)
