"""Runs in its own mount namespace: one run on a full disk and one after enlarging it. Prints the results as JSON."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from datetime import date
from pathlib import Path

from demo import flights_feed
from tests.deployment import Deployment
from tidegate.errors import TidegateError
from tidegate.lake.place import FlowPlace
from tidegate.processes import exit_now
from tidegate.requests.launch import submit_conf
from tidegate.spark.driver.session import build_session
from tidegate.testing.session import SMALL_DATA_CONF


def main() -> None:
    folder, project = Path(sys.argv[1]), Path(__file__).parents[2]
    deployment = Deployment.make(folder, project)
    lake = deployment.environment.lake
    lake.mkdir()
    mount("-t", "tmpfs", "-o", "size=600k", "tmpfs", str(lake))
    environment = dataclasses.replace(deployment.environment, project=project)
    build_session(environment, "tidegate full disk", submit_conf(environment, small=True) | SMALL_DATA_CONF)
    for day in (1, 2, 3, 4, 5):
        flights_feed.land_day(deployment.environment.landing, date(2013, 1, day))
    first = run(deployment)
    mount("-o", "remount,size=200m", str(lake))
    second = run(deployment)
    ids = deployment.table("bronze.flights")["_row_id"].to_pylist()
    silver = (
        deployment.table("silver.flights").num_rows + deployment.quarantined("silver").num_rows
        if (FlowPlace(deployment.layout, "flights", "silver").quarantine.exists())
        else deployment.table("silver.flights").num_rows
    )
    landed = sum(len(flights_feed.days()[date(2013, 1, day)]) for day in (1, 2, 3, 4, 5))
    print(
        json.dumps(
            {
                "first": first,
                "second": second,
                "ids": len(ids),
                "distinct": len(set(ids)),
                "silver": silver,
                "landed": landed,
            }
        )
    )


def run(deployment: Deployment) -> dict[str, object]:
    try:
        report = deployment.run()
    except TidegateError as error:
        return {"kind": type(error).__name__, "transient": error.transient}
    errors = [flow.error for flow in report.flows if flow.error is not None]
    return {"kind": errors[0].kind, "transient": errors[0].transient} if errors else {"kind": None}


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
    exit_now(0)
