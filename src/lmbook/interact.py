"""Sliders that are live in JupyterLab and a still picture everywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def live() -> bool:
    """Whether JupyterLab's server started this kernel."""
    return "JPY_SESSION_NAME" in os.environ


def interact(draw: Callable[..., Any], **controls: Any) -> Any:
    """Redraw ``draw(**values)`` as the reader moves the controls.

    ``controls`` are ipywidgets abbreviations: ``(low, high)`` or ``(low, high,
    step)`` for a slider, a list for a menu. Every control must have a default in
    ``draw``, which is where it starts and what the still twin shows. Raises
    ValueError, in Japanese, for a control that ``draw`` does not take.
    """
    import inspect

    defaults = {
        name: p.default
        for name, p in inspect.signature(draw).parameters.items()
        if p.default is not p.empty
    }
    for name in controls:
        if name not in defaults:
            called = getattr(draw, "__name__", type(draw).__name__)
            raise ValueError(
                f"{name!r} は {called} の既定値つき引数ではありません。"
                f"使えるのは {sorted(defaults)} です。"
            )
    if not live():
        return draw(**{name: defaults[name] for name in controls})
    from ipywidgets import interact as widgets_interact

    widgets_interact(draw, **controls)
    return None
