"""Every number of the README and the pages with a unit has a proof."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Script = Callable[[str], Any]


def test_every_number_has_a_proof(script: Script) -> None:
    claims = script("claims")
    found = [claim for page in claims.pages() for claim in claims.claims(page)]
    assert len(found) > 80
    assert not [(claim.page, claim.line, claim.text, fault) for claim in found if (fault := claims.wrong(claim))]


def test_every_entry_of_the_list_is_used(script: Script) -> None:
    claims = script("claims")
    for name, phrases in claims.CLAIMS.items():
        plain = claims._without_code((claims.common.ROOT / name).read_text(encoding="utf-8"))
        assert not [phrase for phrase in phrases if not list(claims._places(phrase, plain))], name


@pytest.mark.parametrize(
    ("text", "stated", "fault"),
    [
        ("A pass takes 10 s.", ["10 s"], "has no proof"),
        ("It takes 11 s of a pass.", ["11 s"], "is 10 in the code"),
        ("It takes 10 s of a pass.", ["10 s"], ""),
        ('Set `memory="500MB"`, in 2026 or 1,234 rows.\n\n```text\n50%\n```\n', [], ""),
    ],
)
def test_a_number_without_a_proof_is_found(
    text: str, stated: list[str], fault: str, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = script("claims")
    monkeypatch.setattr(claims.common, "ROOT", tmp_path)
    monkeypatch.setitem(claims.CLAIMS, "page.md", {"It takes N of a pass": "joker.estimators.resolve:EXACT_SECONDS"})
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    found = list(claims.claims(tmp_path / "page.md"))
    assert [claim.text for claim in found] == stated
    assert all(claims.wrong(claim) == fault for claim in found)
