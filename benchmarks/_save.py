"""Where a benchmark's results go: ``benchmarks/results/<name>.json``."""

import datetime
import json
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """Processor name, core count and Python version."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    names = [
        line.split(":")[1].strip()
        for line in text.splitlines()
        if line.startswith("model name")
    ]
    name = names[0] if names else platform.processor()
    return f"{name} x{len(names) or 1}, Python {platform.python_version()}"


def save(name: str, **results: Any) -> Path:
    """Write ``results`` with the machine and the date; floats to six digits."""
    head = {"machine": machine(), "date": datetime.date.today().isoformat()}
    file = RESULTS / f"{name}.json"
    text = json.dumps(_rounded({**head, **results}), ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")
    return file


def _rounded(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_rounded(v) for v in x]
    return float(f"{x:.6g}") if isinstance(x, float) else x
