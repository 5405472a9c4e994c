"""What a release needs: addresses that agree, a changelog of the version, and tests before anything is published."""

import re
import tomllib

import pytest
from repository import ROOT, text_files

WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_address_of_the_project_is_one_of_pyproject() -> None:
    urls = PROJECT["urls"]
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} <= urls.keys()
    organisation = re.escape(urls["Repository"].rsplit("/", 2)[1])
    known = (urls["Repository"], urls["Homepage"].rstrip("/"))
    for path in text_files():
        for url in re.findall(rf"https://[\w./-]*{organisation}[\w./-]*", path.read_text(encoding="utf-8")):
            assert url.startswith(known), f"{path.relative_to(ROOT)}: {url}"


def test_the_readme_begins_with_links_to_site_and_repository() -> None:
    opening = (ROOT / "README.md").read_text(encoding="utf-8")[:1_200]
    assert f"]({PROJECT['urls']['Documentation']})" in opening
    assert f"]({PROJECT['urls']['Repository']})" in opening


def test_the_changelog_has_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(PROJECT['version'])}\]", text, re.MULTILINE)


def jobs(name: str) -> dict[str, str]:
    """The text of each job of a workflow."""
    path = WORKFLOWS / name
    if not path.is_file():
        pytest.skip(f"needs {path}")  # a source distribution has none
    text = path.read_text(encoding="utf-8").partition("\njobs:\n")[2]
    parts = re.split(r"^  ([\w-]+):", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_nothing_is_published_before_the_tests_and_an_installation() -> None:
    found = jobs("release.yml")
    needs = {name: re.findall(r"^    needs: (\w+)$", text, re.MULTILINE) for name, text in found.items()}
    assert needs == {"test": [], "build": ["test"], "install": ["build"], "publish": ["install"]}
    assert "uses: ./.github/workflows/test.yml" in found["test"]
    assert "workflow_call" in (WORKFLOWS / "test.yml").read_text(encoding="utf-8")
    assert {"*.whl", "*.tar.gz"} <= set(re.findall(r'"(\*[\w.]+)"', found["install"]))
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f'"{oldest}"' in found["install"]


def test_the_site_is_built_and_its_code_run_before_it_is_deployed() -> None:
    found = jobs("docs.yml")
    assert "make docs\n" in found["build"]
    assert "make docs-check" in found["build"]
    assert "needs: build" in found["deploy"]


def test_hooks_have_the_versions_of_the_constraints() -> None:
    path = ROOT / ".pre-commit-config.yaml"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    (hook,) = re.findall(r"ruff-pre-commit\n    rev: v([\d.]+)", path.read_text(encoding="utf-8"))
    assert f"ruff=={hook}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_there_are_templates_and_a_code_of_conduct() -> None:
    if not (ROOT / ".github").is_dir():
        pytest.skip("a source distribution has none")
    for name in ("ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/request.yml", "pull_request_template.md"):
        assert (ROOT / ".github" / name).stat().st_size > 300
    assert "](CODE_OF_CONDUCT.md)" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
