"""Chapter 1: the causal mean as a matrix against running sums.

B 8, D 64, float32, one thread, with a mask; forward only. The two forms take turns
in one process, and a ratio is the median over rounds of matrix / running sums. Peak
memory is measured in fresh processes, over what the process held before the call.

    python benchmarks/causal_mean.py            measure and write the results
    python benchmarks/causal_mean.py --assert   measure and fail below the bars
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from _save import save

from lmbook.chapters import load

LENGTHS = [16, 64, 256, 1024, 2048, 4096]
ROUNDS = 9
# T -> least time ratio; and the least memory ratio at 1024.
BARS = {1024: 10.0, 4096: 50.0}
MEMORY_BAR = 10.0
FORMS = ("causal_mean", "causal_mean_cumsum")


def inputs(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states [8, T, 64] and a mask with one place in ten padded [8, T]."""
    torch.manual_seed(0)
    hidden = torch.randn(8, length, 64, dtype=torch.float32)
    return hidden, (torch.rand(8, length) > 0.1).long()


def seconds(form: str, length: int, calls: int) -> float:
    """CPU seconds of one call."""
    function = getattr(load("01"), form)
    arguments = inputs(length)
    start = time.process_time()
    for _ in range(calls):
        function(*arguments)
    return (time.process_time() - start) / calls


def time_ratio(length: int) -> tuple[float, float, float]:
    """Median, lowest and highest round of matrix / running sums."""
    calls = max(1, 20_000 // length)
    for form in FORMS:
        seconds(form, length, 1)
    ratios = []
    for _ in range(ROUNDS):
        matrix, running = (
            seconds(form, length, calls if form != FORMS[0] or length < 512 else 1)
            for form in FORMS
        )
        ratios.append(matrix / running)
    return statistics.median(ratios), min(ratios), max(ratios)


def high_water() -> int:
    """Peak KiB of this process (Linux; getrusage's figure survives an exec)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise OSError("no VmHWM in /proc/self/status")


def peak(form: str, length: int) -> int:
    """KiB that one call adds to the peak of a fresh process."""
    command = [sys.executable, __file__, "--peak", form, str(length)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    """Measure, print, and write the results or compare them with the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assert", dest="strict", action="store_true")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak:
        form, length = arguments.peak[0], int(arguments.peak[1])
        hidden, mask = inputs(length)
        getattr(load("01"), form)(hidden[:1, :8], mask[:1, :8])
        before = high_water()
        getattr(load("01"), form)(hidden, mask)
        print(high_water() - before)
        return
    rows = []
    for length in LENGTHS:
        median, low, high = time_ratio(length)
        matrix, running = (peak(form, length) for form in FORMS)
        rows.append(
            {
                "T": length,
                "time_ratio": median,
                "time_low": low,
                "time_high": high,
                "matrix_KiB": matrix,
                "running_KiB": running,
                "memory_ratio": matrix / max(running, 1),
            }
        )
        print(rows[-1], flush=True)
    by_length = {row["T"]: row for row in rows}
    short = [t for t, bar in BARS.items() if by_length[t]["time_ratio"] < bar]
    if arguments.strict:
        if short or by_length[1024]["memory_ratio"] < MEMORY_BAR:
            sys.exit(f"below the bars: T {short}, memory {by_length[1024]}")
        return
    print(save("causal_mean", rows=rows))


if __name__ == "__main__":
    main()
