"""Sentences about a flow, without full stops, in plans and states. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.formatting import count, span

if TYPE_CHECKING:
    from datetime import timedelta

    from tidegate.lake.place import Place
    from tidegate.spec import Flow


def joined(*sentences: str) -> str:
    """Those that are not empty, separated by semicolons."""
    return "; ".join(sentence for sentence in sentences if sentence)


def heartbeat_due(flow: Flow) -> str:
    """Why a flow with a watermark has work without rows."""
    assert flow.watermark is not None
    return f"a heartbeat is due, because no rows came for {flow.watermark.idle}"


def rewritten(number: int) -> str:
    """What to do about files that were changed after they were read."""
    if not number:
        return ""
    files = count(number, "file")
    return f"{files} changed after being read and will not be read again: land the new content under a new name, or reingest"


def touched(number: int) -> str:
    """What happens to files that have another time than when they were read, and the same size."""
    if not number:
        return ""
    verb = "has" if number == 1 else "have"
    return f"{count(number, 'file')} {verb} another time and the same size: the next run compares them"


def sent_again(flow: Flow, place: Place) -> str:
    """What the first run of a new version of a sink's flow sends: a checkpoint begins with the whole table."""
    if not flow.kind.sends or (place.version, place.refresh) == (1, 0):
        return ""
    return f"v{place.version} sends every row of {flow.source_tables[0]} to {flow.target.name} again"


def expiring(left: timedelta) -> str:
    """What to do before a topic's retention deletes unread messages."""
    return f"the topic will delete unread messages in ~{span(left)}: run the flow, or raise the topic's retention"
