"""The plan of a recovery: what is damaged, what is derived again from what, in which order, and what no source has any more.

A flow that is damaged (`tidegate.status.damage`) is derived again: its source is read again, or its table is built again behind
staging. So is a flow that reads a table which is replaced as a whole thereby. A flow below them that can follow the changes reads
them with an ordinary increment. The plan keeps nothing: after each step the lake is looked at again, so an interrupted recovery
goes on by being started again. Starts no JVM and takes no lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.advice import Command
from tidegate.checkpoints import overrides
from tidegate.errors import LossNotAcceptedError, RequestError, TidegateError, classify
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.planning import losses
from tidegate.planning.estimate import Estimate, estimate
from tidegate.planning.losses import Loss
from tidegate.planning.recovery_steps import Key, RecoveryStep, around, key_of, ordered, steps
from tidegate.project import resolution
from tidegate.requests.request import RunRequest
from tidegate.status import damage, source
from tidegate.status.damage import Damage
from tidegate.status.source import Extent

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """A step with what it reads and how long it takes."""

    step: RecoveryStep
    reads: Extent | None
    """None if the source cannot be measured now."""
    time: Estimate | None
    loss: Loss | None
    off: str
    """Who switched the flow off, which stops its recovery; empty if it is on."""

    def lines(self) -> list[str]:
        """Lines of text."""
        flow, step = self.step.resolved.flow, self.step
        reads = "; ".join(flow.source_tables) if self.reads is None else self.reads.summary()
        words = {
            "read again": f"{flow.target.name}: read {reads} again; only what is missing is added",
            "derive again": f"{flow.target.name}: derive it again from {reads}, behind staging",
            "send again": f"{flow.target.name}: send every row of {reads} again",
            "go on": f"{flow.target.name}: go on with the recovery that was interrupted",
            "follow": f"{flow.target.name}: an increment",
        }[step.action]
        time = "no history to estimate from" if self.time is None else self.time.summary()
        lines = [f"{'/'.join(step.key)}: {words}{step.because and f' ({step.because})'}; {time}"]
        if self.off:
            lines.append(f"{'/'.join(step.key)}: cannot be recovered before it is switched on: {self.off}")
        return lines


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What a recovery would do."""

    steps: tuple[PlannedStep, ...]
    """In the order in which they are done."""
    unknown: Mapping[str, TidegateError]
    """Pipelines that do not load, and flows that cannot be judged, with the reason."""

    @property
    def damages(self) -> tuple[Damage, ...]:
        """Everything that is damaged."""
        return tuple(each for planned in self.steps for each in planned.step.damages)

    @property
    def losses(self) -> tuple[tuple[str, Loss], ...]:
        """The pipeline of each loss, and the loss."""
        return tuple((planned.step.key[0], planned.loss) for planned in self.steps if planned.loss is not None)

    def lines(self) -> list[str]:
        """Lines of text: what is wrong, what is done, what is lost."""
        lines = [f"damaged: {each.summary()}" for each in self.damages]
        for number, planned in enumerate(self.steps, 1):
            lines += [f"{number}. {line}" for line in planned.lines()]
        lines += [f"lost: {pipeline}/{loss.flow}: {loss.what}" for pipeline, loss in self.losses]
        return lines + [f"not known: {name}: {error.problem}" for name, error in self.unknown.items()]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "format": 1,
            "damages": [
                {
                    "pipeline": each.pipeline,
                    "flow": each.flow,
                    "what": each.what,
                    "kind": each.kind,
                    "cause": each.cause,
                }
                for each in self.damages
            ],
            "steps": [
                {
                    "pipeline": planned.step.key[0],
                    "flow": planned.step.key[1],
                    "table": planned.step.resolved.flow.target.name,
                    "action": planned.step.action,
                    "reads": None if planned.reads is None else planned.reads.what,
                    "rows": None if planned.reads is None else planned.reads.rows,
                    "seconds": None if planned.time is None else planned.time.seconds,
                }
                for planned in self.steps
            ],
            "lost": [
                {
                    "pipeline": pipeline,
                    "flow": loss.flow,
                    "number": loss.number,
                    "what": loss.what,
                    "accept": loss.acceptance,
                }
                for pipeline, loss in self.losses
            ],
            "unknown": {name: error.message for name, error in self.unknown.items()},
        }


def make(
    environment: Environment, pipelines: Mapping[str, ResolvedPipeline | TidegateError], table: str | None = None
) -> Recovery:
    """The plan of a recovery of the whole lake, or of a table and what stands on it.

    Args:
        pipelines: Every pipeline, or the error of its file (`tidegate.project.resolution.load_all`).
        table: With everything below it, and what is damaged above it.

    Raises:
        RequestError: No flow writes that table.
        SourceUnavailableError: No broker answers. Transient.
    """
    unknown = {name: each for name, each in pipelines.items() if isinstance(each, TidegateError)}
    flows = ordered([flow for each in pipelines.values() if not isinstance(each, TidegateError) for flow in each.flows])
    damages: dict[Key, tuple[Damage, ...]] = {}
    for each in flows:
        key = key_of(each)
        try:
            damages[key] = damage.of_flow(Layout.of(environment), each)
        except TidegateError as error:
            unknown["/".join(key)] = error
    made = steps(flows, damages)
    if table is not None:
        if table not in {flow.flow.target.name for flow in flows}:
            known = sorted({flow.flow.target.name for flow in flows})
            raise RequestError(
                f"no flow writes a table {table!r}",
                Command.tidegate("recover", says=f"known: {', '.join(known)}; or `{{}}`"),
            )
        made = around(table, flows, made)
    return Recovery(steps=_planned(environment, made, unknown), unknown=unknown)


def plan_run(environment: Environment, resolved: ResolvedPipeline, request: RunRequest) -> tuple[RunRequest, list[str]]:
    """The request for the flows of one pipeline that have a step, and lines for people, for `tidegate.requests.runs`.

    Raises:
        LossNotAcceptedError: The request does not accept what is lost.
    """
    made = make(environment, resolution.load_all(environment.project))
    name = resolved.pipeline.name
    own = [
        each
        for each in made.steps
        if each.step.key[0] == name and (not request.flows or each.step.key[1] in request.flows)
    ]
    made = replace(made, steps=tuple(each for each in made.steps if each in own))
    check_accepted(made, {(name, accepted) for accepted in request.accept})
    if not own:
        return request, [f"{name}: nothing is damaged"]
    return replace(request, flows=tuple(each.step.key[1] for each in own)), made.lines()


def check_accepted(recovery: Recovery, accepted: Collection[tuple[str, str]], table: str | None = None) -> None:
    """Check that everything that is lost is accepted.

    Args:
        accepted: Pipelines and names, as ``bronze:lost=12``.
        table: As for `make`.

    Raises:
        LossNotAcceptedError: Something is not.
        TidegateError: It is not known what is lost, as of a landing folder that does not exist.
    """
    for planned in recovery.steps:
        if (error := recovery.unknown.get("/".join(planned.step.key))) is not None:
            raise error
    refused = [(name, each) for name, each in recovery.losses if (name, each.acceptance) not in accepted]
    if refused:
        raise LossNotAcceptedError([(name, each.flow, each.what, each.acceptance) for name, each in refused], table)


def _planned(
    environment: Environment, made: Iterable[RecoveryStep], unknown: dict[str, TidegateError]
) -> tuple[PlannedStep, ...]:
    layout, planned = Layout.of(environment), []
    rows: dict[str, int | None] = {}
    for step in made:
        pipeline, flow = step.resolved.pipeline, step.resolved.flow
        mode = {"read again": "reingest", "derive again": "full_refresh"}.get(step.action, "incremental")
        reads = _extent(environment, step, mode)
        number = None if reads is None else reads.rows
        if number is None and flow.feeds:
            # A table that does not exist yet gets about as many rows as the flow above it reads.
            known = [rows[table] for table in flow.source_tables if table in rows]
            number = known[0] if known else None
        rows[flow.target.name] = number
        off, loss = overrides.switched_off(FlowPlace(layout, pipeline.name, flow.name)), None
        try:
            if step.action in ("read again", "derive again"):
                loss = losses.of_flow(layout, environment.cluster, step.resolved, step.damages)
        except TidegateError as error:
            if error.transient:
                raise
            unknown["/".join(step.key)] = error
        planned.append(
            PlannedStep(
                step=step,
                reads=reads,
                time=estimate(FlowPlace(layout, pipeline.name, flow.name), mode, number),
                loss=loss,
                off="" if off is None else off.summary(),
            )
        )
    return tuple(planned)


def _extent(environment: Environment, step: RecoveryStep, mode: str) -> Extent | None:
    """What a step reads; None if that cannot be measured now, as of a table that is damaged itself."""
    request = RunRequest(dag_id=step.key[0], run_id="recover", mode=mode, flows=(step.key[1],))
    try:
        return source.load(step.resolved.flow).extent(environment, step.resolved.pipeline, step.resolved.flow, request)
    except Exception as error:
        if classify(error).transient:
            raise
        return None
