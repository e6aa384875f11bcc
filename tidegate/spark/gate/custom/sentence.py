"""The description of a custom expectation in Great Expectations: one sentence, built from its arguments."""

from __future__ import annotations

from typing import Any

from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import RendererConfiguration


class SentenceRenderer:
    """Mixin: uses ``_prescriptive_template`` for GX's legacy renderer, too; GX's newer renderers use it by default."""

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls,
        configuration: Any = None,
        result: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[RenderedStringTemplateContent]:
        renderer_configuration: RendererConfiguration[Any] = RendererConfiguration(
            configuration=configuration, result=result, runtime_configuration=runtime_configuration or {}
        )
        sentence = cls._prescriptive_template(renderer_configuration)  # type: ignore[attr-defined]  # of the expectation
        params = {name: param["value"] for name, param in sentence.params.dict().items() if param}
        template = {"template": sentence.template_str, "params": params, "styling": {}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]
