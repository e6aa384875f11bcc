"""Applications whose driver runs on YARN, to which Airflow's Spark provider submits them.

Only imported for such a connection: the provider brings pyspark-client, pandas and PyArrow.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from tidegate.airflow.compat import AirflowException
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import GRACE_SECONDS, KILL_SECONDS, Application, ApplicationError, program, variables
from tidegate.processes import end_group
from tidegate.requests.launch import SECRET


class ClusterSubmission:
    """Submits an application to YARN by the provider's hook."""

    def __init__(self, connection: SparkConnection, log: Any = None) -> None:
        self._connection = connection
        self._hook: _Hook | None = None

    def run(self, application: Application) -> None:
        """As `Submission.run`; the driver's output is on the cluster.

        Where `tidegate.airflow.yarn.Yarn` can be asked for the end, this returns when YARN has the application.
        """
        hook = self._hook = _Hook(self._connection, application)
        try:
            hook.submit(str(application.script))
        except (AirflowException, RuntimeError) as error:
            raise ApplicationError(str(error), hook.code) from error
        finally:
            hook.end_processes()

    @property
    def application(self) -> str | None:
        """As `Submission.application`: the id that YARN has given to the submitted application."""
        return None if self._hook is None else self._hook.application_id

    def kill(self) -> None:
        """End spark-submit and the application on the cluster."""
        if self._hook is not None:
            self._hook.on_kill()


class _Hook(SparkSubmitHook):
    """The provider's hook, with spark-submit of the jobs' environment in a process group of its own and without Airflow's secrets."""

    def __init__(self, connection: SparkConnection, application: Application) -> None:
        self._application = application
        # The hook asks the connection for all that is about the cluster.
        super().__init__(
            # A driver that fails is not started again in the same application: that is for the next try of the task.
            conf={"spark.yarn.maxAppAttempts": "1", **application.conf},
            conn_id=connection.conn_id,
            name=application.name,
            application_args=list(application.arguments),
            # They become settings of the application, which its pages and logs show.
            env_vars={name: text for name, text in application.variables.items() if not name.startswith(SECRET)},
            # Without it a spark-submit JVM would wait on the worker until the application ends.
            yarn_track_via_rm_api=connection.resource_manager is not None,
        )
        self._program = program(connection, application.python)

    @property
    def code(self) -> int | None:
        """Exit code of spark-submit; None if there is none."""
        return self._submit_sp.returncode if self._submit_sp is not None else None

    @property
    def application_id(self) -> str | None:
        """That of YARN; None before the provider has read it in the output of spark-submit."""
        return None if self._yarn_application_id is None else str(self._yarn_application_id)

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run spark-submit and wait for its end."""
        return super().submit(
            application, env=variables(os.environ, self._application), start_new_session=True, **kwargs
        )

    def end_processes(self) -> None:
        """End spark-submit and what it has started on this machine."""
        if self._submit_sp is not None:
            end_group(self._submit_sp.pid, grace=GRACE_SECONDS, kill_seconds=KILL_SECONDS)
            self._submit_sp.wait()
            if self._submit_sp.stdout is not None:
                self._submit_sp.stdout.close()

    def _get_spark_binary_path(self) -> list[str]:
        return [self._program]

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        # Otherwise the provider overwrites our environment with a copy of this process's one, secrets included.
        self._env = None
        return command
