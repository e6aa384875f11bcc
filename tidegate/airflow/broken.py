"""The task of what cannot run: a pipeline whose declaration does not load, or a table of a list that is not valid."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from tidegate.airflow.failure import TaskFailure, plain_failures


class Broken(BaseOperator):
    """Fails with what is wrong with a pipeline, or with a table of its list."""

    def __init__(self, *, problem: str, exit_code: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem, self.exit_code = problem, exit_code

    @plain_failures
    def execute(self, context: Context) -> None:
        """Fail.

        Raises:
            TaskFailure: Always.
        """
        del context
        raise TaskFailure(self.problem, exit_code=self.exit_code)
