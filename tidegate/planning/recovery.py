"""The plan of a recovery: what is damaged, what is derived again from what, in which order, and what no source has any more.

A flow that is damaged (`tidegate.status.damage`) is derived again: its source is read again, or its table is built again behind
staging. So is a flow that reads a table which is replaced as a whole thereby. A flow below them that can follow the changes reads
them with an ordinary increment. The plan keeps nothing: after each step the lake is looked at again, so an interrupted recovery
goes on by being started again. Starts no JVM and takes no lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tidegate.advice import Command
from tidegate.checkpoints import overrides
from tidegate.errors import LossNotAcceptedError, RequestError, TidegateError, classify
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.planning import losses
from tidegate.planning.estimate import Estimate, estimate
from tidegate.planning.losses import Loss
from tidegate.project import resolution
from tidegate.requests.request import RunRequest
from tidegate.status import damage, source
from tidegate.status.damage import Damage
from tidegate.status.source import Extent

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedFlow, ResolvedPipeline

Key = tuple[str, str]
"""Pipeline and flow."""
Action = Literal["read again", "derive again", "send again", "go on", "follow"]
"""``go on``: an earlier recovery of the flow was interrupted. ``follow``: an ordinary increment."""


@dataclass(frozen=True, kw_only=True)
class RecoveryStep:
    """What is done to one flow."""

    resolved: ResolvedFlow
    action: Action
    damages: tuple[Damage, ...]
    because: str
    """Why, for a flow that is not damaged itself."""

    @property
    def key(self) -> Key:
        """The pipeline and the flow."""
        return self.resolved.pipeline.name, self.resolved.flow.name

    @property
    def replaces(self) -> bool:
        """Whether one commit replaces all rows of the table, so that no reader can follow its feed."""
        flow = self.resolved.flow
        return self.action == "derive again" and not flow.target.keys


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
        key = _key(each)
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


def ordered(flows: Sequence[ResolvedFlow]) -> tuple[ResolvedFlow, ...]:
    """Flows of all pipelines, each after those that write what it reads; those of one pipeline stay together where that allows it."""
    writers = {each.flow.target.name: each for each in flows if not each.flow.kind.sends}
    done: dict[Key, ResolvedFlow] = {}
    left = list(flows)
    while left:
        free = [each for each in left if all(_key(above) in done for above in _above(each, writers) if above in left)]
        last = next(reversed(done), ("", ""))[0]
        # Pipelines may feed each other, flows never: a circle is left in the order of the declarations.
        chosen = next((each for each in free if each.pipeline.name == last), (free or left)[0])
        done[_key(chosen)] = chosen
        left.remove(chosen)
    return tuple(done.values())


def steps(flows: Sequence[ResolvedFlow], damages: Mapping[Key, tuple[Damage, ...]]) -> tuple[RecoveryStep, ...]:
    """What is done to each flow that is damaged, or that stands on one that is.

    Args:
        flows: In the order of `ordered`.
        damages: By flow; none for a flow that is whole.
    """
    made: dict[str, RecoveryStep] = {}
    for each in flows:
        own = damages.get(_key(each), ())
        above = [made[table] for table in dict.fromkeys(each.flow.source_tables) if table in made]
        replaced = [step for step in above if step.replaces]
        if own and all(item.kind == "unfinished" for item in own):
            action: Action = "go on"
        elif own or replaced:
            action = _again(each)
        elif above:
            action = "follow"
        else:
            continue
        tables = ", ".join(step.resolved.flow.target.name for step in replaced or above)
        words = f"{tables} is replaced as a whole" if replaced else f"it reads what {tables} gets"
        name = each.flow.target.name if not each.flow.kind.sends else "/".join(_key(each))
        made[name] = RecoveryStep(resolved=each, action=action, damages=own, because="" if own else words)
    return tuple(made.values())


def around(table: str, flows: Sequence[ResolvedFlow], made: Sequence[RecoveryStep]) -> tuple[RecoveryStep, ...]:
    """The steps of a table, of everything below it, and of what these stand on.

    Args:
        flows: All flows, in the order of `ordered`.
    """
    chosen: set[Key] = set()
    reached = {table}
    for each in flows:
        if each.flow.target.name == table or reached & set(each.flow.source_tables):
            chosen.add(_key(each))
            reached.add(each.flow.target.name)
    needed = {each for step in made if step.key in chosen for each in step.resolved.flow.source_tables}
    for step in reversed(made):
        if step.resolved.flow.target.name in needed:
            chosen.add(step.key)
            needed |= set(step.resolved.flow.source_tables)
    return tuple(step for step in made if step.key in chosen)


def _again(resolved: ResolvedFlow) -> Action:
    if not resolved.flow.feeds:
        return "read again"
    return "send again" if resolved.flow.kind.sends else "derive again"


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
                loss = losses.of_flow(layout, environment.kafka, step.resolved, step.damages)
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


def _above(resolved: ResolvedFlow, writers: Mapping[str, ResolvedFlow]) -> list[ResolvedFlow]:
    return [writers[table] for table in resolved.flow.source_tables if table in writers]


def _key(resolved: ResolvedFlow) -> Key:
    return resolved.pipeline.name, resolved.flow.name
