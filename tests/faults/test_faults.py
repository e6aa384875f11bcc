"""Every fault of the table can be applied to the code, and the script reports which test detects it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.__main__ import table, try_fault
from tests.faults.fault import OUTCOMES, Fault, load, outcomes

PROJECT = Path(__file__).parents[2]
FAULTS = load()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_applied_and_changes_the_code(fault: Fault) -> None:
    text = (PROJECT / fault.file).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(fault.patched(text))) != ast.dump(ast.parse(text))
    assert fault.tests_in(PROJECT)


def test_the_listed_tests_exist_and_names_are_unique() -> None:
    assert [path for fault in FAULTS for path in fault.tests if not (PROJECT / path).exists()] == []
    assert [name for name, times in Counter(fault.name for fault in FAULTS).items() if times > 1] == []


def test_there_are_forty_faults_and_most_are_in_the_core_packages() -> None:
    core = ("tidegate/spark", "tidegate/checkpoints", "tidegate/quarantine")
    assert len(FAULTS) >= 40
    assert sum(fault.file.startswith(core) for fault in FAULTS) >= 25


def test_a_test_of_make_test_that_still_exists_detected_each_fault_of_the_table() -> None:
    recorded = outcomes(OUTCOMES)
    assert {outcome.fault for outcome in recorded} == {fault.name for fault in FAULTS}, (
        "python -m tests.faults --only NAME"
    )
    missing = [
        outcome.caught_by
        for outcome in recorded
        if not _has_test(PROJECT / outcome.caught_by.partition("::")[0], outcome.caught_by)
    ]
    assert missing == []
    assert OUTCOMES.with_name("README.md").read_text(encoding="utf-8") == table(recorded)


def _has_test(file: Path, name: str) -> bool:
    """Whether the file has the test, and not as a nightly one."""
    function = name.rpartition("::")[2].partition("[")[0]
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    is_nightly = re.search(rf"^@pytest\.mark\.nightly\n(?:@[^\n]*\n)*def {function}\(", text, re.MULTILINE)
    return f"def {function}(" in text and is_nightly is None


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project with one function and one test of it."""
    (tmp_path / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shop.py").write_text(
        "import shop\n\ndef test_prices_are_added():\n    assert shop.total([1, 2]) == 3\n"
    )
    return tmp_path


@pytest.mark.slow
def test_the_outcome_of_a_detected_fault_names_the_test_and_the_fault_is_reverted(tree: Path) -> None:
    fault = Fault("the first price is left out", "shop.py", "sum(prices)", "sum(prices[1:])", ())
    outcome = try_fault(fault, tree, nightly=False)
    assert outcome.caught_by == "tests/test_shop.py::test_prices_are_added"
    assert outcome.why.startswith("assert 2 == 3")
    assert "prices[1:]" not in (tree / "shop.py").read_text()


@pytest.mark.slow
def test_the_tests_of_the_module_run_before_those_of_its_package(tree: Path) -> None:
    (tree / "till").mkdir()
    (tree / "shop.py").rename(tree / "till" / "shop.py")
    folder = tree / "tests" / "till"
    folder.mkdir()
    text = (tree / "tests" / "test_shop.py").read_text().replace("import shop", "from till import shop")
    for name in ("test_a.py", "test_shop.py"):
        (folder / name).write_text(text)
    fault = Fault("the first price is left out", "till/shop.py", "sum(prices)", "sum(prices[1:])", ())
    assert try_fault(fault, tree, nightly=False).caught_by == "tests/till/test_shop.py::test_prices_are_added"


@pytest.mark.slow
def test_the_outcome_of_an_undetected_fault_names_no_test(tree: Path) -> None:
    fault = Fault("no price is zero", "shop.py", "sum(prices)", "sum(prices) or 0", ())
    assert try_fault(fault, tree, nightly=False).caught_by == ""


def test_a_patch_whose_old_text_is_missing_is_refused(tree: Path) -> None:
    fault = Fault("missing", "shop.py", "max(prices)", "min(prices)", ())
    with pytest.raises(ValueError, match="occurs 0 times"), fault.applied_in(tree):
        pass
