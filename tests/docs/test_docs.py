"""Names in the documents exist: links, paths, commands, settings, modules, columns, versions, errors."""

from __future__ import annotations

import builtins
import functools
import re
import subprocess
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*.md")])
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]
"""Written by hand; the others are generated, and compared with the code in `test_reference`."""
ARCHITECTURE = {
    page.name: page.read_text(encoding="utf-8")
    for page in [ROOT / "docs" / "architecture.md", *sorted(ROOT.glob("docs/architecture/*.md"))]
}
TABLES = {
    page: (ROOT / "docs" / page).read_text(encoding="utf-8")
    for page in ("lake-tables.md", "reference/tables.md", "reference/settings.md")
}
FOLDERS = {
    path.partition("/")[0]
    for path in subprocess.check_output(("git", "ls-files", "*/*"), cwd=ROOT, text=True).splitlines()
}
"""Of the project, in git."""


def of_all_pages(wrong_in: Callable[[Path], Collection[str]]) -> Callable[[], None]:
    """A test that finds nothing wrong in any page; one for each of a hundred pages and seven rules took seconds to collect."""

    def test() -> None:
        wrong = {str(page.relative_to(ROOT)): list(names) for page in PAGES if (names := wrong_in(page))}
        assert wrong == {}

    return test


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """The language and the content of each fenced block."""
    yield from re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def spans(text: str) -> list[str]:
    """Texts between backticks, outside of fenced blocks."""
    return [
        " ".join(span.split()) for span in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    ]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(title: str) -> str:
    """The one section with this heading on the pages of the architecture and of the tables, without its heading."""
    (matching,) = [
        after.split("\n## ")[0].split("\n### ")[0]
        for text in [*ARCHITECTURE.values(), *TABLES.values()]
        for after in re.split(rf"^##+ {re.escape(title)}\n", text, flags=re.M)[1:]
    ]
    return matching


@of_all_pages
def test_every_relative_link_has_a_target(page: Path) -> Collection[str]:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    wrong = []
    for link in links:
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            wrong.append(link)

    return wrong


@of_all_pages
def test_every_path_in_the_project_that_is_named_exists(page: Path) -> Collection[str]:
    scaffolded = scaffold_of("orders")
    # `docs/<pipeline>/` is a folder of the lake.
    named = [span.rstrip("/") for span in spans(page.read_text(encoding="utf-8")) if re.fullmatch(r"[\w.<>*/-]+", span)]
    paths = [name for name in named if name.split("/")[0] in FOLDERS and not name.startswith("docs/<")]
    wrong = [path for path in paths if path not in scaffolded and not any(ROOT.glob(re.sub(r"<\w+>", "*", path)))]

    return wrong


@of_all_pages
def test_every_file_at_the_root_that_is_named_exists(page: Path) -> Collection[str]:
    suffixes = "md|toml|yaml|txt|in|lock.json"
    named = {span for span in spans(page.read_text(encoding="utf-8")) if re.fullmatch(rf"[\w-]+\.({suffixes})", span)}
    # Files of the reference, which are named without their folder.
    named -= {"cli.md", "declarations.md", "environment.md", "errors.md"}

    created = scaffold_of("orders")
    return {name for name in named - created if not (ROOT / name).exists() and not name.startswith("failure-")}


def test_the_readme_lists_every_folder() -> None:
    listed = next(
        block for _, block in fenced((ROOT / "README.md").read_text(encoding="utf-8")) if "tidegate/  " in block
    )

    assert {name for name in FOLDERS if not name.startswith(".")} == set(re.findall(r"^([\w]+)/", listed, re.MULTILINE))


def scaffold_of(name: str) -> set[str]:
    """Files and folders that `tidegate new` and `tidegate init` create, relative to the project."""
    from tidegate.environment import Environment
    from tidegate.scaffolding.pipeline_files import files_of
    from tidegate.scaffolding.project_files import TEMPLATES

    created = files_of(Environment.read({"TIDEGATE_PROJECT": str(ROOT)}), name, "files")
    paths = {Path(address).relative_to(ROOT) for address in created}
    return {str(path) for path in paths} | {str(path.parent) for path in paths} | TEMPLATES.keys()


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each `tidegate` command on a page."""
    text = page.read_text(encoding="utf-8")
    lines = [line for language, block in fenced(text) if language != "python" for line in block.splitlines()]
    for line in [*lines, *spans(text)]:
        match = re.search(r"(?:^|[\s/])tidegate ([a-z].*)", line)
        if match and not line.startswith("import ") and "tidegate import" not in line:
            yield re.split(r"\s+#|;|`|\||\.$", match[1])[0].split()


@functools.cache
def command_line() -> Any:
    import typer

    from tidegate.cli import app

    return typer.main.get_command(app)


@of_all_pages
def test_every_command_in_a_page_exists(page: Path) -> Collection[str]:
    whole = command_line()
    wrong = []
    for words in commands(page):
        command, arguments = whole, list(words)
        while arguments and (inner := getattr(command, "commands", {}).get(arguments[0])) is not None:
            command = inner.make_context(arguments[0], [], resilient_parsing=True).command
            arguments = arguments[1:]
        options = {option for parameter in command.params for option in parameter.opts}
        if command is whole or [word for word in arguments if word.startswith("--") and word not in options]:
            wrong.append(" ".join(words))

    return wrong


def test_the_documents_show_every_command() -> None:
    shown = {words[0] for page in WRITTEN for words in commands(page)}

    assert set(command_line().commands) - shown <= {"version"}


@of_all_pages
def test_every_make_target_in_a_page_exists(page: Path) -> Collection[str]:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    blocks = [
        line for language, block in fenced(text) if language in ("bash", "console") for line in block.splitlines()
    ]
    named = {match[1] for line in [*spans(text), *blocks] if (match := re.match(r"(?:\$ )?make ([a-z0-9-]+)", line))}

    return named - targets


@of_all_pages
def test_no_page_has_a_path_of_one_machine(page: Path) -> Collection[str]:
    return re.findall(r"(?<![\w.…])/(?:home|root|tmp|work|Users)/\S*", page.read_text(encoding="utf-8"))


def test_every_spark_setting_is_explained_with_its_value() -> None:
    from tidegate.spark.driver.session import REASONED_SETTINGS, SETTINGS

    rows = {
        row[1].strip(): row[2].strip().replace("\\|", "|")
        for row in (re.split(r"(?<!\\)\|", line) for line in TABLES["reference/settings.md"].splitlines())
        if len(row) == 5
    }

    assert {f"`{name}`": f"`{value}`" for name, value in SETTINGS.items()} == {
        name: value for name, value in rows.items() if name.startswith("`")
    }
    assert [name for name, _, why in REASONED_SETTINGS if not why] == []


def test_every_setting_before_the_jvm_is_explained() -> None:
    launch = (ROOT / "tidegate" / "requests" / "launch.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"(spark\.[\w.]+)"', launch))

    assert names
    assert {name for name in names if f"`{name}`" not in section("Spark settings")} == set()


def test_the_overview_has_every_package_of_the_platform_and_no_other() -> None:
    rows = [re.split(r"\|", line)[2] for line in section("Packages").splitlines() if re.match(r"\| [^|]+ \| `", line)]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert named == {path.parent.name for path in (ROOT / "tidegate").glob("*/__init__.py")}


def test_the_page_of_modules_has_each_module_in_its_package_once() -> None:
    packages = re.split(r"^## ", (ROOT / "docs" / "reference" / "modules.md").read_text(encoding="utf-8"), flags=re.M)
    listed = [
        f"{package.splitlines()[0]}/{name}.py"
        for package in packages[1:]
        for name in re.findall(r"^\| `(\w+)` \| \S", package, re.MULTILINE)
    ]
    modules = [path for path in (ROOT / "tidegate").rglob("*.py") if path.name != "__init__.py"]

    assert sorted(listed) == sorted(str(path.relative_to(ROOT)) for path in modules)


def test_the_architecture_is_short() -> None:
    """What a module does is in its docstring, from which the reference is generated; the overview is one screen."""
    assert len(" ".join(ARCHITECTURE.values()).split()) <= 9000
    assert len(ARCHITECTURE["architecture.md"].splitlines()) <= 60


def test_the_steps_of_a_micro_batch_have_the_numbers_of_the_code() -> None:
    code = (ROOT / "tidegate/spark/batch/micro_batch.py").read_text(encoding="utf-8")
    steps = re.findall(r"^(\d)\. (\w+(?: the \w+)*)", code, re.MULTILINE)

    assert [number for number, _ in steps] == list("012345")
    assert [step for number, step in steps if f"- **{number}. {step}" not in section("The six steps")] == []


def columns_of(title: str) -> list[str]:
    """The names in the first column of a section's table."""
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_the_columns_of_the_platforms_own_tables_are_those_of_the_code() -> None:
    from tidegate.ops import alert_history, evolution, ledger, metrics

    assert sorted(columns_of("Progress")) == sorted(metrics.PROGRESS.columns)
    assert sorted(columns_of("Alerts")) == sorted(alert_history.ALERTS.columns)
    assert sorted(columns_of("Evolution")) == sorted(evolution.EVOLUTION.columns)
    assert sorted(columns_of("Ledger")) == sorted(ledger.LEDGER.columns)
    assert sorted(columns_of("Verdicts")) == sorted(ledger.VERDICTS.columns)


def test_the_columns_of_bronze_and_quarantine_are_those_of_the_code() -> None:
    from tidegate.spark.batch.quarantine import REFUSED
    from tidegate.spark.intake.landing import LINES

    def names(ddl: str) -> list[str]:
        return re.findall(r"(\w+) (?:string|bigint|timestamp|array<string>)", ddl)

    assert columns_of("Bronze of files") == names(LINES)
    assert columns_of("Quarantine")[: len(names(REFUSED))] == names(REFUSED)


def test_the_dispositions_are_those_of_the_code() -> None:
    from tidegate.spark.batch.dispositions import NAMES

    assert set(columns_of("The disposition of a row")) >= {*NAMES, "already_read"}


def test_the_versions_are_those_of_the_lock() -> None:
    lock = dict(
        re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| ([a-z-]+) \| ([\d.]+)", readme, re.MULTILINE))

    assert set(documented) >= {"apache-airflow", "pyspark", "delta-spark", "great-expectations"}
    assert {name: version for name, version in documented.items() if lock.get(name) != version} == {}


@of_all_pages
def test_every_error_in_a_page_is_defined_by_tidegate_or_python(page: Path) -> Collection[str]:
    from tidegate import errors

    named = {span for span in spans(page.read_text(encoding="utf-8")) if re.fullmatch(r"[A-Z]\w+Error", span)}

    return {name for name in named if not hasattr(errors, name) and not hasattr(builtins, name)}


def test_decisions_are_numbered_without_a_gap_and_listed() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")

    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. ")
        assert f"adr/{path.name}" in index
        assert "**Context.**" in text
        assert "**Decision.**" in text


def test_every_picture_is_used_and_well_formed() -> None:
    import xml.etree.ElementTree as ET

    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert any(f"pictures/{picture.name}" in text for text in texts)
        if picture.suffix == ".png":
            assert picture.read_bytes().startswith(b"\x89PNG")
            continue
        assert "prefers-color-scheme: dark" in picture.read_text(encoding="utf-8")
        ET.parse(picture)


def test_the_guides_show_the_files_of_the_examples_as_they_are() -> None:
    shown = [
        (path, text)
        for page in WRITTEN
        for path, text in re.findall(
            r"^```python (\S+)\n((?s:.*?))^```$", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        if (ROOT / path).exists()
    ]
    assert [path for path, text in shown if text != (ROOT / path).read_text(encoding="utf-8")] == []
    assert {path for path, _ in shown} >= {"pipelines/delays.py", "spark_jobs/delays.py"}
