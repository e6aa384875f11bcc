"""Advice is data, and reads as a clause or as a sentence after the problem."""

from __future__ import annotations

from tidegate.advice import Command, Edit, Either, OutsideAct, Then, new_version, with_advice
from tidegate.errors import SpecError

RUN = Command.tidegate("run", "shop", "--flow", "silver")
RESTORE = OutsideAct("restore it from a backup")


def test_a_command_is_written_as_it_is_typed() -> None:
    accept = Command.tidegate(
        "quarantine", "accept", "shop", "silver", "--reason", "a gap of a day", says="let it pass ({})"
    )
    assert accept.argv[-1] == "a gap of a day"
    assert accept.text == 'let it pass (tidegate quarantine accept shop silver --reason "a gap of a day")'
    assert Command.tidegate("flow", "on", "shop", "silver", "--reason", "…").text.endswith('--reason "…"')
    assert Command.tidegate("run", 'it is "$HOME"').written == "tidegate run 'it is \"$HOME\"'"


def test_several_ways_are_joined_so_that_each_can_be_told_from_the_next() -> None:
    assert Either(RESTORE, new_version(1)).text == (
        "restore it from a backup, or set checkpoint_version=2 in the declaration"
    )
    assert Then(RESTORE, RUN).text == "restore it from a backup, then tidegate run shop --flow silver"
    assert Either(OutsideAct("ask a, b"), RUN).text == "ask a, b; or tidegate run shop --flow silver"


def test_a_command_that_shows_something_stands_in_a_sentence_of_its_own() -> None:
    shows = Command.tidegate("lag", "shop", says="`{}` shows whether rows wait")
    assert Then(OutsideAct("ask who feeds it"), shows, RUN).text == (
        "ask who feeds it; `tidegate lag shop` shows whether rows wait; tidegate run shop --flow silver"
    )


def test_the_message_of_an_error_is_its_problem_and_its_advice() -> None:
    assert SpecError("the file is gone", RESTORE).message == "the file is gone; restore it from a backup"
    assert SpecError("The file is gone.", RESTORE).message == "The file is gone. Restore it from a backup."
    assert with_advice("stopped", None) == "stopped"
    derives = Command.tidegate("run", "shop", says="{} derives it again")
    assert with_advice("It differs.", derives) == "It differs. tidegate run shop derives it again."


def test_the_parts_of_advice_are_listed_in_order() -> None:
    edit = Edit("correct the transform", "transform")
    assert list(Then(Either(edit, RESTORE), RUN).parts()) == [edit, RESTORE, RUN]


def test_the_advice_of_a_table_is_filled_with_names() -> None:
    advice = Then(Edit("correct the suite of {flow}", "suite"), Command.tidegate("run", "{pipeline}"))
    filled = advice.of("shop", "silver")
    assert filled.text == "correct the suite of silver, then tidegate run shop"
    assert list(filled.parts())[-1] == Command.tidegate("run", "shop")


def test_a_way_that_a_flow_does_not_have_is_left_out() -> None:
    take = Command.tidegate("quarantine", "take", "{pipeline}", "{flow}")
    assert Either(RESTORE, take).without("quarantine", "take") == RESTORE
    assert Either(RESTORE, take, RUN).without("quarantine", "take") == Either(RESTORE, RUN)
    assert take.without("quarantine", "take") is None
