"""What a backfill is, and which flows have the event time for one."""

from __future__ import annotations

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import RequestError
from tidegate.requests.event_time import event_time, event_time_table
from tidegate.requests.runs import RunKind, derives_keys
from tidegate.spec import Flow, Pipeline


def _check(pipeline: Pipeline, flow: Flow) -> None:
    table = event_time_table(flow)
    if event_time(pipeline, flow) is not None:
        return
    if pipeline.writer_of(table) is None:
        raise RequestError(
            f"flow {flow.name!r} cannot be backfilled: another pipeline writes {table!r}, from which its "
            "groups are computed.",
            Either(
                OutsideAct("backfill that pipeline: the next increment reads the changes"),
                Edit(
                    f"declare Table(…, event_time=<a date or timestamp among its keys>) for {flow.target.name!r}",
                    "declaration",
                ),
                Edit("use mode='full_refresh'", "request"),
            ),
        )
    raise RequestError(
        f"flow {flow.name!r} cannot be backfilled: no event_time is declared.",
        Either(
            Edit(f"write Table(…, event_time=<a date or timestamp column>) for {table!r}", "declaration"),
            Edit("use mode='full_refresh'", "request"),
        ),
    )


KIND = RunKind(
    name="backfill",
    meaning="derive the rows of a window of event time again, with the present code and suite",
    replaces_rows=True,
    applies_to=derives_keys,
    check=_check,
    window="required",
    rewrites="{keys}, where the result differs",
)
