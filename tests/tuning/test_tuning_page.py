"""The page about tuning states the settings that the code has."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| [^|]+ \| ([^|]+) \| `(\w+)\.(\w+)` \|$", PAGE, re.MULTILINE)


def test_the_table_is_found() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("stated", "module", "constant"), ROWS, ids=[constant for *_, constant in ROWS])
def test_a_stated_setting_is_that_of_the_code(stated: str, module: str, constant: str) -> None:
    value = getattr(import_module(f"joker.tuning.{module}"), constant)
    values = value if isinstance(value, tuple) else (value,)
    assert stated == ", ".join(v if isinstance(v, str) else f"{v:g}" for v in values)
