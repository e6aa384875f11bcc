"""The one place where a path is made.

::

    <lake>/lake.json                                            the lake's format
           tables/<layer>/<table>/                              Delta
           quarantine/<pipeline>/<flow>/                        Delta: what did not pass, with the reason
           staging/<pipeline>/<flow>/v<N>-<refresh>/            Delta: a version bump on its way
           checkpoints/<dag_id>/<flow>/v<N>.json                the sidecar: what this version remembers
           checkpoints/<dag_id>/<flow>/v<N>.schema.json         the schema of the records that it parses
           checkpoints/<dag_id>/<flow>/v<N>.topic.json          Kafka's ids of the topic that it reads and of its cluster
           checkpoints/<dag_id>/<flow>/v<N>/<refresh>/          Spark's own: offsets, commits, sources, state
           checkpoints/<dag_id>/<flow>/v<N>-<r>.<what>.json     refused, taken, opened: what became of a refresh and its batch
           checkpoints/<dag_id>/<flow>/replays/                 planned replays and reingests of windows
           checkpoints/<dag_id>/<flow>/claim.json               a replay has quarantined entries in hand
           leases/                                              one empty file per lease, one that says who holds it
           reports/<dag_id>/<run_key>/<id>.request.json         what a run was asked to do
           reports/<dag_id>/<run_key>/<attempt>/                report.json
           docs/<pipeline>/                                     data quality reports (HTML)
           _ops/<pipeline>/{ledger,verdicts,evolution}/         Delta: what every batch did, how schemas changed
           _ops/<pipeline>/{progress,alerts}/                   Delta: how fast every batch was, what was worth an alert
           _ops/<pipeline>/plans.jsonl                          what `plan` found before each run
           _ops/<pipeline>/schemas/<id>.json                    writers' schemas, as the registry told them
    <landing>/<source>/                                         files as they arrive
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tidegate.environment import Environment
from tidegate.errors import LakeVersionError, RequestError

LAKE_FORMAT = 1


@dataclass(frozen=True)
class Layout:
    """All paths of one lake and one landing zone."""

    lake: Path
    landing_root: Path

    @classmethod
    def of(cls, environment: Environment) -> Layout:
        """The layout of an environment."""
        return cls(environment.lake, environment.landing)

    def landing(self, source_path: str) -> Path:
        """Where a file source's files arrive."""
        return self.landing_root / source_path

    def table(self, name: str) -> Path:
        """A Delta table, by its ``<layer>.<table>`` name."""
        layer, _, table = name.partition(".")
        return self.lake / "tables" / layer / table

    def quarantine(self, pipeline: str, flow: str) -> Path:
        """The Delta table of what a flow set aside."""
        return self.lake / "quarantine" / pipeline / flow

    def staging(self, pipeline: str, flow: str, version: int, refresh: int) -> Path:
        """Where a full refresh builds a table before it is swapped in."""
        return self.lake / "staging" / pipeline / flow / f"v{version}-{refresh}"

    def checkpoints(self, dag_id: str, flow: str) -> Path:
        """The folder of all checkpoint versions of a flow."""
        return self.lake / "checkpoints" / dag_id / flow

    def checkpoint(self, dag_id: str, flow: str, version: int, refresh: int) -> Path:
        """Spark's checkpoint folder."""
        return self.checkpoints(dag_id, flow) / f"v{version}" / str(refresh)

    def sidecar(self, dag_id: str, flow: str, version: int) -> Path:
        """What a checkpoint version remembers of the declaration, as JSON."""
        return self.checkpoints(dag_id, flow) / f"v{version}.json"

    def schema(self, dag_id: str, flow: str, version: int) -> Path:
        """The schema of the landing source that a checkpoint version parses records with, as JSON."""
        return self.checkpoints(dag_id, flow) / f"v{version}.schema.json"

    def topic(self, dag_id: str, flow: str, version: int) -> Path:
        """Which topic of which Kafka cluster a checkpoint version reads, as JSON."""
        return self.checkpoints(dag_id, flow) / f"v{version}.topic.json"

    def refusal(self, dag_id: str, flow: str, version: int, refresh: int) -> Path:
        """Which batch a gate or a contract refused last, and by what: `plan` reads it without a JVM."""
        return self.checkpoints(dag_id, flow) / f"v{version}-{refresh}.refused.json"

    def taken(self, dag_id: str, flow: str, version: int, refresh: int) -> Path:
        """Which refused batch a person sent to quarantine whole: the flow's next run does it."""
        return self.checkpoints(dag_id, flow) / f"v{version}-{refresh}.taken.json"

    def opened(self, dag_id: str, flow: str, version: int, refresh: int) -> Path:
        """Which request opened a refresh of a checkpoint version, as JSON."""
        return self.checkpoints(dag_id, flow) / f"v{version}-{refresh}.opened.json"

    def interventions(self, dag_id: str, flow: str) -> Path:
        """What people decided about a flow at run time (`tidegate.checkpoints.intervention`): a line of JSON for each decision."""
        return self.checkpoints(dag_id, flow) / "interventions.jsonl"

    def replays(self, dag_id: str, flow: str) -> Path:
        """The planned replays of a flow: a JSON file each, and the keys of the one in hand."""
        return self.checkpoints(dag_id, flow) / "replays"

    def claim(self, dag_id: str, flow: str) -> Path:
        """Which claim of quarantined entries a replay of the flow has in hand, as JSON; nothing while it has none."""
        return self.checkpoints(dag_id, flow) / "claim.json"

    def lease(self, resource: str) -> Path:
        """The empty file that is locked; nothing but the lock may ever open it in the committing process."""
        return self.lake / "leases" / f"{quote(resource, safe='')}.lock"

    def lease_owner(self, resource: str) -> Path:
        """Who took the lease last, as JSON, beside the locked file."""
        return self.lake / "leases" / f"{quote(resource, safe='')}.owner.json"

    def attempt(self, dag_id: str, run_key: str, attempt: str) -> Path:
        """The folder of one attempt's report."""
        return self.reports(dag_id) / _plain(run_key) / _plain(attempt)

    def report(self, dag_id: str, run_key: str, attempt: str) -> Path:
        """The run report of one attempt."""
        return self.attempt(dag_id, run_key, attempt) / "report.json"

    def request(self, dag_id: str, run_key: str, request_id: str) -> Path:
        """What a run was asked to do."""
        return self.reports(dag_id) / _plain(run_key) / f"{_plain(request_id)}.request.json"

    def claims(self, dag_id: str, run_key: str, request_id: str) -> Path:
        """The numbers of the claims that a replay made, as JSON, for its next attempt."""
        return self.request(dag_id, run_key, request_id).with_suffix(".claims.json")

    def reports(self, dag_id: str) -> Path:
        """All runs of a pipeline."""
        return self.lake / "reports" / dag_id

    def docs(self, pipeline: str) -> Path:
        """The data quality reports of a pipeline: a site with ``index.html``."""
        return self.lake / "docs" / pipeline

    def ops(self, pipeline: str, table: str) -> Path:
        """What the platform keeps about a pipeline.

        The Delta tables ``ledger``, ``verdicts``, ``evolution``, ``progress`` and ``alerts``, and the folder ``schemas``.
        """
        return self.lake / "_ops" / pipeline / table

    def plans(self, pipeline: str) -> Path:
        """What `plan` found before each run: a line of JSON each."""
        return self.lake / "_ops" / pipeline / "plans.jsonl"

    def open(self) -> None:
        """Make the lake if it is not there, or check that this Tidegate understands it.

        Raises:
            LakeVersionError: The lake was made by a newer Tidegate.
        """
        marker = self.lake / "lake.json"
        try:
            found = int(json.loads(marker.read_text())["format"])
        except FileNotFoundError:
            self.lake.mkdir(parents=True, exist_ok=True)
            marker.write_text(json.dumps({"format": LAKE_FORMAT}) + "\n")
            return
        if found > LAKE_FORMAT:
            raise LakeVersionError(
                f"the lake at {self.lake} has format {found}; this Tidegate knows formats up to {LAKE_FORMAT}: upgrade Tidegate"
            )


def run_key(run_id: str) -> str:
    """A folder name for a run: a slug of its id that people can read, and 8 hex digits that keep two ids apart."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")[:60] or "run"
    return f"{slug}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def _plain(part: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", part):
        raise RequestError(f"{part!r} is not the id of a run or an attempt: letters, digits, '-' and '_' only")
    return part
