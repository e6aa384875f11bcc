"""Prepares the machine as `tidegate setup` does, with the jars of the broker too, and creates the Airflow home.

``python -m devstack``, the second half of ``scripts/setup.sh``.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from devstack import airflow_home
from tidegate.errors import TidegateError
from tidegate.runtime import archive_build, jars, repository

log = logging.getLogger(__name__)


def main(project_root: Path) -> int:
    """Run the steps that are not done yet, with one log line each; returns the exit code."""
    logging.basicConfig(format="setup: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        wanted = jars.of_set(project_root, *jars.pinned(project_root))
        repository.fetch(jars.missing(wanted, verify=True), log.info)
        if not airflow_home.is_ready(project_root):
            log.info("creating the Airflow home in .airflow")
            airflow_home.ensure(project_root)
        if not archive_build.is_complete(project_root):
            log.info("creating the class data archive, with which jobs start in half the time (about a minute)")
            archive_build.build(project_root)
    except TidegateError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
