"""Limits of rewrites: which shares exceed them, and in which declaration they are."""

from __future__ import annotations

import pytest

from tests.with_fields import with_fields
from tidegate.errors import FieldError
from tidegate.reports.impact import Impact
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, RewriteLimits, Table


def impact(deleted: int, before: int, quarantined: int = 0, read: int = 1_000) -> Impact:
    return Impact(
        before=before, after=before - deleted, deleted=deleted, changed=0, added=0, read=read, quarantined=quarantined
    )


@pytest.mark.parametrize(
    ("deleted", "before", "is_refused"),
    [
        (0, 0, False),
        (0, 100, False),
        (100, 1_000, False),
        (101, 1_000, True),
        # Up to ten rows of a few are not too many, unless they are all.
        (10, 12, False),
        (11, 12, True),
        (10, 10, True),
        (1, 1, True),
    ],
)
def test_more_than_a_tenth_of_the_rows_and_more_than_ten_of_them_or_all_are_too_many(
    deleted: int, before: int, is_refused: bool
) -> None:
    limits = RewriteLimits()
    assert limits.exceeded(impact(deleted, before)) == (("deleted",) if is_refused else ())
    assert limits.exceeded(impact(0, 5, deleted, before)) == (("quarantined",) if is_refused else ())


def test_each_limit_is_declared_for_itself() -> None:
    much = impact(500, 1_000, 500, 1_000)
    assert RewriteLimits().exceeded(much) == ("deleted", "quarantined")
    assert RewriteLimits(deleted_share=0.5).exceeded(much) == ("quarantined",)
    assert RewriteLimits(quarantined_share=1).exceeded(much) == ("deleted",)
    assert RewriteLimits(deleted_share=1, quarantined_share=1).exceeded(impact(9, 9, 9, 9)) == (), "1 refuses nothing"
    assert RewriteLimits(rows=0).exceeded(impact(1, 5)) == ("deleted",)
    assert RewriteLimits(deleted_share=0, rows=0).exceeded(impact(1, 1_000)) == ("deleted",)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("deleted_share", -0.1),
        ("deleted_share", 10),
        ("deleted_share", None),
        ("quarantined_share", True),
        ("quarantined_share", float("nan")),
        ("rows", -1),
        ("rows", 2.5),
        ("rows", False),
    ],
)
def test_an_invalid_limit_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(FieldError, match=field):
        RewriteLimits(**{field: value})  # type: ignore[arg-type]  # invalid on purpose


def test_a_flow_has_its_own_limits_or_those_of_its_pipeline() -> None:
    source = FileSource(path="a", format="csv", schema="a INT")
    bronze = Flow(name="bronze", source=source, target=Table("bronze.a"))
    table = Table("silver.a", keys=("a",), sequence_by=("b",))
    own = RewriteLimits(deleted_share=0.5)
    silver = Flow(name="silver", source=ChangeFeed("bronze.a"), target=table, rewrite_limits=own)
    pipeline = Pipeline(name="shop", flows=(bronze, silver), rewrite_limits=RewriteLimits(rows=100))
    assert pipeline.rewrite_limits_of(silver) == own
    assert pipeline.rewrite_limits_of(bronze).rows == 100
    for declared in (bronze, pipeline):
        with pytest.raises(FieldError, match="rewrite_limits"):
            with_fields(declared, rewrite_limits=0.1)
