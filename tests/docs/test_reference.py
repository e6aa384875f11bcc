"""The committed reference equals the output of the generator."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

from tidegate import spec

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"

_spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
assert _spec is not None and _spec.loader is not None
_generator = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_generator)

COMMITTED = sorted(path.name for path in (DOCS / "reference").glob("*.md"))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    generated: dict[str, str] = _generator.pages()
    return generated


@pytest.mark.parametrize("name", COMMITTED)
def test_a_page_is_up_to_date(pages: dict[str, str], name: str) -> None:
    committed = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert committed == pages[name], "run `python docs/generate_reference.py`"


def test_every_page_of_the_reference_is_generated(pages: dict[str, str]) -> None:
    assert set(COMMITTED) == set(pages)


def test_every_public_declaration_is_in_the_reference_with_all_its_fields() -> None:
    reference = (DOCS / "reference" / "declarations.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", reference, re.MULTILINE | re.DOTALL))
    classes = {
        name: each
        for name in dir(spec)
        if inspect.isclass(each := getattr(spec, name)) and dataclasses.is_dataclass(each)
    }
    assert len(classes) > 15, classes
    assert classes.keys() <= sections.keys()
    for name, each in classes.items():
        fields = {field.name for field in dataclasses.fields(each) if not field.name.startswith("_")}
        own = "".join(sections[base.__name__] for base in each.__mro__ if base.__name__ in sections)
        missing = {field for field in fields if f"`{field}`" not in own}
        assert not missing, f"{name} lacks {missing}"


def test_the_imports_of_every_guide_exist_and_its_declarations_are_valid() -> None:
    """Blocks that declare a pipeline are executed, of all others the imports; fragments, which have an ellipsis, are not."""
    blocks = 0
    for guide in sorted((DOCS / "guides").glob("*.md")):
        for title, code in re.findall(
            r"^```python(.*?)\n(.*?)^```", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            if "…" in code or not (title.strip() or code.startswith(("from ", "import ", '"""'))):
                continue
            tree = ast.parse(code)
            if "pipelines/" not in title:
                tree.body = [
                    each
                    for each in tree.body
                    if isinstance(each, ast.ImportFrom) and (each.module or "").split(".")[0] == "tidegate"
                ]
            try:
                exec(compile(tree, f"{guide.name}{title}", "exec"), {"__name__": "guide"})
            except Exception as error:
                pytest.fail(f"{guide.name}{title}: {error}")
            blocks += 1
    assert blocks > 10


def test_commands_and_options_are_in_the_reference(pages: dict[str, str]) -> None:
    for text in ("## tidegate run", "## tidegate quarantine show", "`--force`", "`--timeout SECONDS`"):
        assert text in pages["cli.md"]
