"""``tidegate snapshots``."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate import json_codec
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name, OneFlow
from tidegate.formatting import count
from tidegate.lake.place import PipelinePlace
from tidegate.sources.snapshots import beside


def snapshots(
    name: Name,
    flow: OneFlow,
    last: Annotated[
        int, typer.Option(metavar="COUNT", help="Maximum number of snapshots, the newest last.", min=1)
    ] = 5,
    rows: Annotated[int, typer.Option(metavar="N", help="Name at most this many keys of each snapshot.", min=0)] = 20,
    as_json: AsJson = False,
) -> None:
    """Show how snapshots beside the changes of a flow differed from its table, and name keys that did. Starts no JVM.

    A missing key was in the snapshot only, an unexpected one in the table only. Keys with a later change are counted, and left as they
    are. At most 100 keys of a snapshot are kept.

    The printed keys are values of the data. The name of a column stands for its values.
    """
    place, pipeline = PipelinePlace(project.lake(project.read()), name), project.load(name)
    (chosen,) = project.choose(pipeline, [flow])
    compared = list(beside.comparisons(place.flow(chosen.name)).values())[-last:]
    if as_json:
        console.print_json({"format": 1, "pipeline": name, "flow": flow, "snapshots": json_codec.to_plain(compared)})
        return
    if not compared:
        console.echo(f"No snapshot was compared with {chosen.target.name}.")
    for each in compared:
        done = f"only compared, because {each.why}" if each.why else "written"
        console.echo(f"{each.name}  {each.summary()}; {done}")
        for row in each.rows[:rows]:
            columns = f"  ({', '.join(row.columns)})" if row.columns else ""
            console.echo(f"  {row.effect:<10}  {row.key}{columns}")
        more = each.missing + each.different + each.unexpected - len(each.rows[:rows])
        if more and rows:
            console.echo(f"  … {count(more, 'more key')}")
