"""What really ran: the calls inside a function, and the graph behind a result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from typing import Any

from lmbook import plots
from lmbook.repro import fmt


def calls(
    run: Callable[[], Any], inside: str, watched: Collection[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Run ``run``; the ``watched`` functions that ``inside`` called, and the data flow.

    The flow is pairs ``(a, b)`` of places in the list of calls, as text: something
    that call a returned, alone or in a tuple, was an argument of call b. Whatever
    profiler was on before is on again afterwards.
    """
    names: list[str] = []
    flow: list[tuple[str, str]] = []
    made: dict[int, tuple[int, Any]] = {}  # holds the object, so that no id comes again

    def watch(frame: FrameType, event: str, result: Any) -> None:
        name, caller = frame.f_code.co_name, frame.f_back
        if name not in watched or caller is None or caller.f_code.co_name != inside:
            return
        if event == "call":
            names.append(name)
            used = [made[id(v)][0] for v in frame.f_locals.values() if id(v) in made]
            flow.extend((str(source), str(len(names) - 1)) for source in used)
        elif event == "return":
            for part in result if isinstance(result, tuple) else [result]:
                made[id(part)] = len(names) - 1, part

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(before)
    return names, flow


def graph(nodes: Mapping[str, Any], *, title: str, alt: str) -> plots.Picture:
    """The named ``nodes`` with value and gradient, joined to what they were made of.

    A node has ``data``, ``grad`` and ``_children``. Raises ValueError for a child
    that has no name here.
    """
    names = {id(node): name for name, node in nodes.items()}
    arrows = []
    for name, node in nodes.items():
        for child in node._children:
            if id(child) not in names:
                raise ValueError(f"{name} の材料 {child} に名前がありません。")
            arrows.append((names[id(child)], name))
    boxes = {
        name: f"{name}\n値 {fmt(node.data, 0)}\n勾配 {fmt(node.grad, 0)}"
        for name, node in nodes.items()
    }
    return plots.diagram(boxes, arrows, title=title, alt=alt, across=True)
