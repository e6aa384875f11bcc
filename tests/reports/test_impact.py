"""What a rewrite does to a table: shares, words, and the names of accepted numbers."""

from __future__ import annotations

import pytest

from tidegate.reports.impact import Impact, acceptance, accepting_flow

LOSS = Impact(before=355, after=0, deleted=355, changed=0, added=0, read=1_427, quarantined=427)


def test_the_summary_and_the_phrases_name_every_count() -> None:
    assert LOSS.summary() == (
        "355 rows before, 0 after: 355 deleted, 0 changed, 0 added; 427 of 1,427 source rows newly in quarantine"
    )
    assert LOSS.phrase("deleted") == "delete 355 of 355 rows (100.0%)"
    assert LOSS.phrase("quarantined") == "send 427 of 1,427 source rows (29.9%) to quarantine"


def test_nothing_is_a_share_of_nothing() -> None:
    empty = Impact(before=0, after=3, deleted=0, changed=0, added=3, read=0, quarantined=0)
    assert (empty.share("deleted"), empty.share("quarantined")) == (0, 0)


def test_an_acceptance_names_the_flow_the_effect_and_the_number() -> None:
    assert acceptance("silver", "deleted", 355) == "silver:deleted=355"
    assert accepting_flow("silver:deleted=355") == "silver"


@pytest.mark.parametrize(
    "text",
    [
        "silver:deleted",
        "silver:deleted=",
        "deleted=355",
        "silver:changed=3",
        "silver:deleted=-1",
        "../x:deleted=1",
        "",
        None,
    ],
)
def test_any_other_text_accepts_nothing(text: object) -> None:
    assert accepting_flow(text) is None
