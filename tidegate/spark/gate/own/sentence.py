"""How an expectation of ours reads in Great Expectations' pages: one sentence, made of its arguments."""

from __future__ import annotations

from typing import Any

from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import RendererConfiguration


class Sentence:
    """Makes GX's pages show the sentence of ``_prescriptive_template``, which newer renderers of GX show anyway."""

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls,
        configuration: Any = None,
        result: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[RenderedStringTemplateContent]:
        told: RendererConfiguration[Any] = RendererConfiguration(
            configuration=configuration, result=result, runtime_configuration=runtime_configuration or {}
        )
        sentence = cls._prescriptive_template(told)  # type: ignore[attr-defined]  # of the expectation it is mixed into
        params = {name: param["value"] for name, param in sentence.params.dict().items() if param}
        template = {"template": sentence.template_str, "params": params, "styling": {}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]
