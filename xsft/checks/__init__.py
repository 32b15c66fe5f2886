"""Checks: all that can be known before a slice is taken. Pure: a run and its facts in, problems out.

Each module of this folder with a function `check(run, keys, facts)` is a subject. docs/checks.md maps every trap to its
check.
"""
