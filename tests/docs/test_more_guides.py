"""Runs the console blocks of the guides that are too many for one file of a nightly slice."""

from __future__ import annotations

import pytest

from tests.docs import guides
from tests.docs.guides import GuideRunner
from tests.docs.test_guides import NIGHTLY_ELSEWHERE, check_guide


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> GuideRunner:
    return GuideRunner(tmp_path_factory.mktemp("guides"), [guides.GUIDES / name for name in NIGHTLY_ELSEWHERE])


@pytest.mark.nightly
@pytest.mark.jvm
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guide", NIGHTLY_ELSEWHERE)
def test_a_guide_prints_what_it_shows_and_no_value_leaves_the_tables(guide: str, runner: GuideRunner) -> None:
    check_guide(guides.GUIDES / guide, runner)
