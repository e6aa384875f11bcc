"""Makes all of the embedded default that needs Java: the jars, the Airflow home, the class data archive.

``python -m tidegate.embedded``, the second half of ``scripts/setup.sh``. What is there is left alone.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tidegate.embedded import airflow_home, archive, ivy, jars
from tidegate.errors import TidegateError

log = logging.getLogger("tidegate.embedded")


def main(project_root: Path) -> int:
    """Does each step that is not done yet, with one line for each; returns the exit code."""
    logging.basicConfig(format="setup: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        if jars.missing(project_root):
            log.info("fetching the pinned jars")
        with ivy.progress_for(sys.stderr) as progress:
            jars.fetch(project_root, progress)
        if not airflow_home.is_ready(project_root):
            log.info("making the Airflow home in .airflow")
            airflow_home.ensure(project_root)
        if not archive.is_settled(project_root):
            log.info("training the class data archive, so that jobs start in half the time")
            archive.build(project_root)
    except TidegateError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
