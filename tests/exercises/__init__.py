"""Answers to every exercise: rows ``(exercise, answer, hint)`` in ``chNN.ROWS``.

``exercise`` is the name of the check in ``lmbook.checks.chNN``; ``hint`` the kind of
result it must give, ``"ok"`` for a right answer.
"""
